"""Holds: the rule agrees with the queue's claims and with its SQL in every situation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product, starmap
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django.utils import timezone

from webhooks_app.models import Delivery, Event, QueueEntry, QueueLane, Webhook
from webhooks_app.models.hold import (
    Hold,
    HoldReason,
    Load,
    blockers_of,
    hold_of,
    holds_of,
    is_upcoming,
    reason_expression,
)
from webhooks_app.protocol.ids import new_id

from ..delivery.conftest import ManualClock
from ..support.queues import LookingQueue
from ..support.rows import URL, emit_one, make_backlog, make_webhook
from ..support.slots import open_slots

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TIMES: dict[str, dict[str, Any]] = {
    "due": {"due_at": NOW},
    "not due": {"due_at": NOW + SECOND},
    "in flight": {"due_at": NOW - SECOND, "leased_until": NOW + SECOND, "claimed_at": NOW - SECOND, "attempt": 1},
    "lost": {"due_at": NOW - SECOND, "leased_until": NOW, "claimed_at": NOW - 45 * SECOND, "attempt": 1},
    "final": {},
}
EXPIRIES = (None, NOW, NOW + SECOND)
RATES: dict[str, dict[str, Any]] = {
    "no limit": {},
    "used up": {"rate_limit": 2.0, "next_slot_at": NOW + SECOND / 1000},
    "a slot": {"rate_limit": 2.0, "next_slot_at": NOW - SECOND / 4},
    "two slots": {"rate_limit": 2.0, "next_slot_at": NOW - SECOND / 2},
    "slow": {"rate_limit": 0.5, "next_slot_at": NOW - 9 * SECOND},
    "limit taken away": {"next_slot_at": NOW + SECOND},
    "secret not readable": {"unsigned_until": NOW + SECOND},
    "secret not readable before": {"unsigned_until": NOW},
}
LOADS = (0, 1)
"""The number of other deliveries in flight to a webhook with a limit of one."""

STOPS: dict[str, dict[str, Any]] = {
    "": {},
    "paused": {"paused_at": NOW},
    "deleted": {"deleted_at": NOW},
    "new URL": {"pending_url": f"{URL}/new"},
    "new URL, paused": {"pending_url": f"{URL}/new", "paused_at": NOW},
}


GROUPS: dict[str, dict[str, Any]] = {
    "first": {"order_key": "", "place": 2},
    "behind": {"order_key": "", "place": 2},
    "parked": {"order_key": "", "place": 2, "due_at": None},
    "order taken away": {"order_key": "", "place": 2},
}
"""Entries of groups; ``behind`` and ``parked`` have an earlier one, which is not due."""


class Situation(NamedTuple):
    status: str
    stop: str
    rate: str
    time: str
    expires_at: datetime | None
    load: int
    group: str = ""


CLAIMABLE = ("due", "lost")
"""Times for which the rate and the load matter."""

SITUATIONS = (
    *starmap(Situation, product(Webhook.Status, STOPS, RATES, CLAIMABLE, EXPIRIES, LOADS)),
    *starmap(Situation, product(Webhook.Status, STOPS, ("no limit",), TIMES.keys() - CLAIMABLE, EXPIRIES, (0,))),
    *starmap(Situation, product(Webhook.Status, STOPS, ("no limit", "used up"), TIMES, EXPIRIES[:2], (0,), GROUPS)),
)


def make(kind: Delivery.Kind, event: Event, facts: Iterable[Situation]) -> dict[str, Situation]:
    """Create a delivery of this kind in each situation, each with a webhook of its own. Return them by id."""
    situations, webhooks, lanes, others, entries = {}, [], [], [], []
    for situation in facts:
        rate = dict(RATES[situation.rate])
        lane = {name: rate.pop(name, None) for name in ("next_slot_at", "unsigned_until")}
        webhook = Webhook(url=URL, status=situation.status, max_in_flight=1, **STOPS[situation.stop], **rate)
        if situation.group and situation.group != "order taken away":
            webhook.order = "webhook"
        delivery = Delivery(webhook=webhook, kind=kind, expires_at=situation.expires_at)
        delivery.event = None if kind == Delivery.Kind.VERIFICATION else event
        webhooks.append(webhook)
        situations[delivery] = situation
        held = {"7": (1, (NOW + SECOND).timestamp())} if situation.load else {}
        lanes.append(QueueLane(webhook=webhook, in_flight=held, **lane))
        if situation.time == "final":
            delivery.state, delivery.finished_at = Delivery.State.SUCCEEDED, NOW
        else:
            entries.append(entry_of(delivery, situation.time, **GROUPS.get(situation.group, {})))
        if situation.group in ("behind", "parked"):
            earlier = Delivery(webhook=webhook, kind=kind, event=delivery.event)
            others.append(earlier)
            entries.append(entry_of(earlier, "not due", order_key="", place=1))
        if situation.load:
            other = Delivery(webhook=webhook, kind="verification")
            others.append(other)
            entries.append(entry_of(other, "in flight"))
    Webhook.objects.bulk_create(webhooks)
    Delivery.objects.bulk_create([*others, *situations])
    QueueLane.objects.bulk_create(lanes)
    QueueEntry.objects.bulk_create(entries)
    return {delivery.pk: situation for delivery, situation in situations.items()}


def entry_of(delivery: Delivery, time: str, **fields: Any) -> QueueEntry:
    entry = QueueEntry.of(delivery, NOW)
    for name, value in {**TIMES[time], **fields}.items():
        setattr(entry, name, value)
    return entry


def claimed() -> dict[str, bool]:
    """Claim as much as possible. Return the ids, each with whether its earlier claim was lost."""
    clock = ManualClock()
    clock.now = NOW
    queue = LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=open_slots(cap=9))
    found: dict[str, bool] = {}
    while claims := queue.claim(100_000):
        found |= {claim.delivery_id: claim.is_lost for claim in claims}
    return found


def read(pks: Iterable[str]) -> list[Delivery]:
    return list(Delivery.objects.select_related("webhook__lane", "queue_entry").in_bulk(list(pks)).values())


@pytest.fixture
def event(django_user_model) -> Event:
    return emit_one(django_user_model.objects.create_user("alice"))


SHARES = 5
"""Parts of the table. It repeats itself every 12 rows, so each part has all values."""

SHARES_OF_KINDS = [
    *((0, kind) for kind in Delivery.Kind),
    *(
        pytest.param(share, kind, marks=[pytest.mark.long, pytest.mark.only_on("sqlite")])
        for share, kind in zip(range(1, SHARES), Delivery.Kind, strict=True)
    ),
]
"""One share with each kind shows on each database that rule and SQL agree. SQLite tries every situation with a kind."""


@pytest.mark.timeout(400)  # thousands of webhooks, on a machine that tests three databases
@pytest.mark.parametrize(("share", "kind"), SHARES_OF_KINDS)
@pytest.mark.parametrize("time", TIMES)
def test_a_delivery_is_claimed_if_and_only_if_nothing_holds_it(event, kind, time, share):
    Delivery.objects.all().delete()
    situations = make(kind, event, [each for each in SITUATIONS if each.time == time][share::SHARES])
    rows = read(situations)
    holds = dict(zip([row.pk for row in rows], holds_of(rows, now=NOW), strict=True))

    found = claimed()

    new = {situations[pk] for pk, is_lost in found.items() if not is_lost}
    lost = {situations[pk] for pk, is_lost in found.items() if is_lost}
    # A secret that another worker cannot read holds nothing back from this one.
    free = {pk for pk, hold in holds.items() if hold is None or hold.reason == HoldReason.UNSIGNED}
    assert new == {situations[pk] for pk in free}
    assert lost <= {situations[pk] for pk, hold in holds.items() if hold and hold.reason == HoldReason.LOST}
    assert bool(new) == (time == "due")
    assert bool(lost) == (time == "lost")


LIMITS = {"rate_limited", "withheld", "unsigned"}
UPCOMING = {"", "expired", "address_busy", "not_due", *LIMITS}
IN_SQL = {"lost": "in_flight", "address_busy": "not_due", "withheld": ""}
"""The reasons that the expression does not distinguish."""


@pytest.mark.parametrize("kind", Delivery.Kind)
def test_the_conditions_in_sql_agree_with_the_rule(event, kind):
    facts = [situation for situation in SITUATIONS if not situation.load and situation.time != "final"]
    situations = make(kind, event, facts[:: 1 if connection.vendor == "sqlite" else SHARES])
    rows = read(situations)
    blockers = blockers_of(rows)
    holds = {row.pk: hold_of(row, now=NOW, blocker=blockers.get(row.pk)) for row in rows}
    reasons = {pk: "" if hold is None else hold.reason.value for pk, hold in holds.items()}
    entries = QueueEntry.objects.filter(pk__in=situations)

    upcoming = entries.filter(is_upcoming()).values_list("pk", flat=True)
    assert {situations[pk] for pk in upcoming} == {situations[pk] for pk in reasons if reasons[pk] in UPCOMING}
    found = dict(entries.annotate(hold=reason_expression(NOW)).values_list("pk", "hold"))
    assert {situations[pk]: hold for pk, hold in found.items()} == {
        situations[pk]: IN_SQL.get(reason, reason) for pk, reason in reasons.items()
    }


def test_a_hold_names_the_delivery_before_it(event, django_assert_num_queries):
    webhook = Webhook.objects.create(url=URL, status="active", order="webhook")
    first, second, third = Delivery.objects.bulk_create([Delivery(webhook=webhook, event=event) for _ in range(3)])
    entries = [(first, 1, NOW - SECOND), (second, 2, None), (third, 3, NOW)]
    for delivery, place, due_at in entries:
        QueueEntry.objects.create(**vars_of(delivery), order_key="", place=place, due_at=due_at)
    QueueLane.objects.create(webhook=webhook, is_fast=True)

    with django_assert_num_queries(3):  # the rows, the blockers, the load
        holds = {row.pk: hold for row, hold in with_holds([first, second, third])}

    assert holds[first.pk] is None
    assert holds[second.pk] == holds[third.pk] == Hold(reason=HoldReason.ORDERED, blocker=first.pk)


def with_holds(rows: Iterable[Delivery]) -> list[tuple[Delivery, Hold | None]]:
    found = read(row.pk for row in rows)
    return list(zip(found, holds_of(found, now=NOW), strict=True))


def vars_of(delivery: Delivery) -> dict[str, Any]:
    return {
        "delivery": delivery,
        "webhook": delivery.webhook,
        "event_id": delivery.event_id,
        "kind": delivery.kind,
        "max_attempts": delivery.max_attempts,
    }


def test_a_hold_has_the_facts_for_a_sentence(event):
    webhook = Webhook(status="active", rate_limit=2.0)
    delivery = Delivery(webhook=webhook)
    entry = delivery.queue_entry = QueueEntry.of(delivery, NOW + SECOND)

    assert hold_of(delivery, now=NOW) == Hold(reason=HoldReason.NOT_DUE, until=NOW + SECOND)
    entry.claimed_at, entry.leased_until = NOW - SECOND, NOW + SECOND
    assert hold_of(delivery, now=NOW) == Hold(reason=HoldReason.IN_FLIGHT, since=NOW - SECOND, until=NOW + SECOND)
    entry.claimed_at, entry.leased_until, entry.due_at = None, None, NOW
    assert hold_of(delivery, now=NOW, load=Load(3), max_in_flight=3) == Hold(
        reason=HoldReason.CONCURRENCY, in_flight=3, max_in_flight=3
    )
    webhook.lane = QueueLane(webhook=webhook, next_slot_at=NOW + SECOND)
    assert hold_of(delivery, now=NOW) == Hold(reason=HoldReason.RATE_LIMITED, until=NOW + SECOND)
    webhook.paused_at = NOW - SECOND
    assert hold_of(delivery, now=NOW) == Hold(reason=HoldReason.PAUSED, since=NOW - SECOND)


@pytest.mark.parametrize(("is_fast", "limit"), [(True, 3), (False, 3), (None, 1)])
def test_the_configured_limit_applies_after_the_first_result(settings, is_fast, limit):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 3
    webhook = Webhook(status="active")
    webhook.lane = QueueLane(webhook=webhook, is_fast=is_fast)
    delivery = Delivery(webhook=webhook)
    delivery.queue_entry = QueueEntry.of(delivery, NOW)

    below = hold_of(delivery, now=NOW, load=Load(limit - 1))
    reached = hold_of(delivery, now=NOW, load=Load(limit))

    assert below is None or below.reason != HoldReason.CONCURRENCY
    assert reached == Hold(reason=HoldReason.CONCURRENCY, in_flight=limit, max_in_flight=limit)


@pytest.mark.parametrize("first_entries", [2, 8, 1000])
def test_all_claims_of_a_webhook_count(event: Event, monkeypatch: pytest.MonkeyPatch, first_entries: int) -> None:
    monkeypatch.setattr("webhooks_app.models.queue_entry.SOUGHT_ENTRIES", first_entries)
    idle, busy = make_webhook(event.owner), make_webhook(event.owner)
    for webhook in (idle, busy):
        make_backlog(webhook, 6)
    claimed = list(QueueEntry.objects.filter(webhook=busy).order_by("due_at").values_list("pk", flat=True)[:5])
    QueueEntry.objects.filter(pk__in=claimed).update(claimed_at=timezone.now())

    found = QueueEntry.objects.claimed_first([idle.pk, busy.pk], 50)

    assert sorted(found) == sorted(claimed)


def test_the_claims_of_more_webhooks_than_a_statement_may_have_selects_are_found(event: Event) -> None:
    webhook = make_webhook(event.owner)
    make_backlog(webhook, 2)
    QueueEntry.objects.filter(webhook=webhook).update(claimed_at=timezone.now())

    found = QueueEntry.objects.claimed_first([*(new_id("wh") for _ in range(501)), webhook.pk], 50)

    assert len(found) == 2


@pytest.mark.parametrize(
    ("is_fast", "open_since", "reason"),
    [
        pytest.param(True, None, None, id="fast"),
        pytest.param(True, NOW - SECOND / 2, None, id="a request just begun"),
        pytest.param(True, NOW - SECOND, HoldReason.SLOW, id="a request open for a second"),
        pytest.param(False, None, HoldReason.SLOW, id="slow before"),
    ],
)
def test_a_slow_receiver_is_a_reason_for_a_hold(is_fast, open_since, reason):
    webhook = Webhook(status="active")
    webhook.lane = QueueLane(webhook=webhook, is_fast=is_fast)
    delivery = Delivery(webhook=webhook)
    delivery.queue_entry = QueueEntry.of(delivery, NOW)

    hold = hold_of(delivery, now=NOW, load=Load(1 if open_since else 0, open_since))

    assert (hold and hold.reason) == reason


def test_the_load_is_not_queried_for_deliveries_held_otherwise(event, django_assert_num_queries):
    webhook = Webhook(status="active")
    webhook.lane = QueueLane(webhook=webhook)
    later, due = Delivery(webhook=webhook), Delivery(webhook=webhook)
    later.queue_entry, due.queue_entry = QueueEntry.of(later, NOW + SECOND), QueueEntry.of(due, NOW)

    with django_assert_num_queries(0):
        holds_of([later, later], now=NOW)
    with django_assert_num_queries(1):
        holds_of([later, due, due], now=NOW)


@pytest.mark.parametrize(("order", "expected"), [("webhook", 1), ("key", 1), ("none", 3)])
def test_only_a_webhook_with_an_order_has_blocked_deliveries(event, order, expected):
    """The places in a group remain when the order is switched off."""
    webhook = Webhook.objects.create(url=URL, status="active", order=order)
    new = Delivery.objects.bulk_create([Delivery(webhook=webhook, event=event) for _ in range(3)])
    for place, delivery in enumerate(new, start=1):
        QueueEntry.objects.create(**vars_of(delivery), order_key="", place=place, due_at=NOW - SECOND)
    QueueLane.objects.create(webhook=webhook, is_fast=True)

    due = QueueEntry.objects.annotate(hold=reason_expression(NOW)).filter(hold="", webhook=webhook)
    rows = read([each.pk for each in new])

    assert due.count() == expected
    assert sum(hold is None for hold in holds_of(rows, now=NOW)) == expected
