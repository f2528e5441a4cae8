"""The events that webhooks have missed, by the cause of their last attempts."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.utils import timezone

from webhooks_app.models import Delivery, DeliveryAttempt, Event, Webhook
from webhooks_app.models.problem import Cause
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.sending import redeliver
from webhooks_app.protocol.ids import first_id_at, new_id, new_ordered_id
from webhooks_app.replays.missed import (
    CANCELLED,
    NEVER_QUEUED,
    count_missed,
    count_missed_of_each,
    missed_events,
    still_missed,
)

from ..support.plans import rows_read, update_statistics
from ..support.rows import emit_one, end_deliveries, make_id_older, make_webhook

pytestmark = pytest.mark.django_db

UNAVAILABLE, TIMEOUT = Cause("http_status", 503), Cause("timeout", 0)


def give_up(webhook: Webhook, cause: Cause, **facts: Any) -> Delivery:
    event, now = emit_one(webhook.owner), timezone.now()
    Delivery.objects.filter(event=event).delete()
    ended = {"state": "given_up", "finished_at": now, "last_result": cause.result, "attempt_count": 1}
    delivery: Delivery = Delivery.objects.create(
        id=make_id_older(new_id("dlv", now), timedelta(minutes=5)),
        event=event,
        webhook=webhook,
        **ended,
        **facts,
    )
    answered = {"result": cause.result, "response_status": cause.code or None, "url": webhook.url}
    DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=now, **answered)
    return delivery


@pytest.fixture
def webhook(webhook: Webhook) -> Webhook:
    """A webhook that has not been stopped for long."""
    Webhook.objects.update(status_changed_at=timezone.now() - timedelta(days=60))
    webhook.refresh_from_db()
    return webhook


def missed(*webhooks: Webhook, is_for_owner: bool = False) -> dict[tuple[str, Cause], int]:
    found, unread = missed_events(webhooks, timezone.now() - timedelta(hours=1), is_for_owner=is_for_owner)
    assert unread == set()
    return dict(found)


def test_events_are_counted_by_webhook_and_cause(alice: Any, webhook: Webhook) -> None:
    other = make_webhook(alice, *webhook.event_types, url="https://other.example/hooks")
    other.status_changed_at = webhook.status_changed_at
    for cause in (UNAVAILABLE, UNAVAILABLE, TIMEOUT):
        give_up(webhook, cause)
    give_up(other, TIMEOUT)

    assert missed(webhook, other) == {(webhook.pk, UNAVAILABLE): 2, (webhook.pk, TIMEOUT): 1, (other.pk, TIMEOUT): 1}


@pytest.mark.parametrize(("again", "number"), [("pending", 0), ("succeeded", 0), ("given_up", 1)])
def test_an_event_that_is_sent_again_is_not_missed(webhook: Webhook, again: str, number: int) -> None:
    later = redeliver(give_up(webhook, UNAVAILABLE), actor=PROJECT)
    if again != "pending":
        end_deliveries(
            Delivery.objects.filter(pk=later.pk), state=again, finished_at=timezone.now(), last_result="timeout"
        )

    assert sum(missed(webhook).values()) == number


def test_a_hidden_cause_is_left_out_for_the_owner(webhook: Webhook) -> None:
    give_up(webhook, TIMEOUT, is_masked=True)

    assert missed(webhook) == {(webhook.pk, TIMEOUT): 1}
    assert missed(webhook, is_for_owner=True) == {}


STATES = ("pending", "succeeded", "given_up", "cancelled")


@pytest.mark.parametrize("states", [(), *product(STATES), *product(STATES, STATES)])
def test_the_counts_of_one_webhook_and_of_many_and_the_list_agree(webhook: Webhook, states: tuple[str, ...]) -> None:
    Webhook.objects.update(status="disabled", status_changed_at=timezone.now())
    webhook.refresh_from_db()
    event = emit_one(webhook.owner)
    first = None
    for state in states:
        ended = None if state == "pending" else timezone.now()
        fields = {"state": state, "finished_at": ended, "redelivery_of": first, "last_result": "timeout"}
        delivery = Delivery.objects.create(
            id=new_ordered_id("dlv", timezone.now()), event=event, webhook=webhook, **fields
        )
        first = first or delivery

    expected = 0 if {"pending", "succeeded"} & set(states) else 1

    assert count_missed(webhook, since=webhook.created_at).number == expected
    assert sum(missed(webhook).values()) == expected
    listed = still_missed(webhook.deliveries.all()).order_by().values("event").distinct()
    assert listed.count() == (expected if states else 0)  # a list of deliveries has none that were never queued


def test_events_cancelled_with_their_webhook_are_missed(webhook: Webhook) -> None:
    """A change of the URL that fails its verification."""
    tried, untried = emit_one(webhook.owner), emit_one(webhook.owner)
    Delivery.objects.filter(event=tried).update(last_result="timeout", attempt_count=1)
    webhook.fail("unreachable")
    never = emit_one(webhook.owner)
    webhook.refresh_from_db()

    assert missed(webhook) == {(webhook.pk, TIMEOUT): 1, (webhook.pk, CANCELLED): 1, (webhook.pk, NEVER_QUEUED): 1}
    assert count_missed(webhook, since=webhook.created_at).number == len({tried, untried, never})


def test_a_count_that_ends_early_is_a_lower_bound(webhook: Webhook) -> None:
    for _ in range(6):
        give_up(webhook, TIMEOUT)

    counted = [count_missed(webhook, since=webhook.created_at, most=most)[::2] for most in (0, 8, 19, 40)]

    assert counted == [(0, True), (2, True), (5, True), (6, False)]


def test_an_event_with_too_many_deliveries_is_not_counted(webhook: Webhook) -> None:
    event = give_up(webhook, TIMEOUT).event
    others = [make_webhook(webhook.owner, url=f"https://{number}.example/") for number in range(9)]
    Delivery.objects.bulk_create(Delivery(event=event, webhook=each, state="succeeded") for each in others)

    counted = [count_missed(webhook, since=webhook.created_at, most=most)[::2] for most in (11, 40)]

    assert counted == [(0, True), (1, False)]


def test_a_webhook_leaves_the_rows_that_it_spares_to_the_next_ones(webhook: Webhook) -> None:
    others = [make_webhook(webhook.owner, "file.deleted", url=f"https://{number}.example/") for number in range(2)]
    Webhook.objects.filter(pk__in=[each.pk for each in others]).update(created_at=timezone.now() + timedelta(hours=1))
    for each in others:
        each.refresh_from_db()
    for _ in range(6):
        give_up(webhook, TIMEOUT)

    counts = count_missed_of_each([*others, webhook], since=webhook.created_at, most=40)

    assert [each.number for each in counts] == [0, 0, 6]


@pytest.fixture
def crowd(webhook: Webhook) -> list[Webhook]:
    """Eight webhooks with deliveries of 4,000 events, among those of other accounts. The first two were not reached."""
    hour = timedelta(hours=1)
    others = get_user_model().objects.bulk_create(get_user_model()(username=f"other {number}") for number in range(9))
    webhooks = [webhook, *(make_webhook(webhook.owner, *webhook.event_types, url=webhook.url) for _ in range(7))]
    began_at = timezone.now() - 3 * hour
    Webhook.objects.update(created_at=began_at - hour, status="disabled", status_changed_at=began_at)
    ids = [first_id_at("evt", began_at + number * timedelta(milliseconds=200)) for number in range(40_000)]
    fields = {"type": webhook.event_types[0], "created_at": began_at, "body": "{}"}
    owners = [webhook.owner, *others]
    events = Event.objects.bulk_create(
        (Event(id=pk, owner=owners[number % 10], **fields) for number, pk in enumerate(ids)), batch_size=5000
    )
    states = ["given_up"] * 2 + ["succeeded"] * 6
    ended = {"last_result": "timeout", "attempt_count": 1, "finished_at": timezone.now()}
    Delivery.objects.bulk_create(
        (
            Delivery(event=event, webhook=each, state=state, **ended)
            for event in events[::10]
            for each, state in zip(webhooks, states, strict=True)
        ),
        batch_size=5000,
    )
    update_statistics()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL random_page_cost = 1")  # as in large tables
    found = Webhook.objects.in_bulk([each.pk for each in webhooks])
    return [found[each.pk] for each in webhooks]


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables")
def test_few_rows_are_read_to_count_what_is_missed_of_many(crowd: list[Webhook]) -> None:
    since = timezone.now() - timedelta(hours=3)
    counted: list[Any] = []

    read = [
        rows_read(lambda: counted.append(count_missed(crowd[0], since=since))),
        rows_read(lambda: counted.extend(count_missed_of_each(crowd, since=since))),
        rows_read(lambda: counted.append(missed_events(crowd, since, is_for_owner=False))),
    ]

    assert max(read) < 8000, read
    assert counted[0].number > 400
    assert [each.number > 20 for each in counted[1:-1]] == [True] * 2 + [False] * 6
    assert all(each.has_more for each in counted[:-1])
    assert {each.pk for each in crowd} <= counted[-1][1]
