"""The events that webhooks have missed.

An event is missed if a webhook was to get it, and it neither succeeded nor will be attempted: its delivery was given up
or cancelled and nothing has been delivered instead, or it was never queued because the webhook was stopped. The other
modules ask this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.utils import timezone

from ..conf import known_policies
from ..models import Delivery, DeliveryAttempt, Replay, Webhook
from ..models.delivery import MISMATCHED
from ..models.keyset import MAX_RANGES, Parts, created_within, newest_of_each
from ..models.problem import Cause
from ..models.replay import missing_outcomes
from ..protocol.ids import time_of
from .planning import MOST_EVENTS, ONE_TICK, Match, look, missed_since

MOST_COUNTED = 3000
"""Maximum number of events that are examined to find the missed ones of a webhook."""

MOST_GIVEN_UP = 1200
"""Given-up deliveries that are read, the latest of each webhook, and as many cancelled ones."""

MOST_STOPPED = 20
"""Stopped webhooks whose events are examined for those that were never queued."""

CANCELLED, NEVER_QUEUED = Cause("cancelled"), Cause("missed")
"""The causes of events without an attempt."""

ROUNDS = 3
"""Rounds of reading. Webhooks with few given-up deliveries leave their share to the others."""

State = Delivery.State
Rows = TypeVar("Rows", bound=QuerySet[Any])

WAITS = timedelta(hours=1)
"""Time for attempts and in the queue, besides the delays of retries. Longer pauses are not considered."""

MissedByCause: TypeAlias = "Counter[tuple[str, Cause]]"
"""Numbers of events by webhook and cause."""


class Failed(NamedTuple):
    pk: str
    webhook_id: str
    event_id: str | None
    state: str
    result: str
    is_masked: bool
    first_id: str | None
    reason: str
    finished_at: datetime | None
    status: int | None

    @property
    def is_failed(self) -> bool:
        return self.state in Delivery.LISTED_STATES and self.reason != MISMATCHED


class Missed(NamedTuple):
    """The events that a webhook has missed since a time."""

    number: int
    since: datetime
    has_more: bool = False
    """Whether later events were not examined."""


def count_missed(
    webhook: Webhook, *, since: datetime | None = None, until: datetime | None = None, states: Sequence[str] = ()
) -> Missed:
    """Count the events missed since then, among at most ``MOST_COUNTED``; save nothing.

    The default is what ``plan_replay`` covers by default. ``states`` limits the events to some outcomes.
    """
    since = missed_since(webhook) if since is None else max(since, webhook.created_at)
    draft, number = _draft(webhook, since, until, states=list(states) or missing_outcomes()), 0
    for _page in range(MOST_COUNTED // MOST_EVENTS):
        found = look(webhook.alias, draft)
        number += len(found.matches)
        if found.is_last:
            return Missed(number, draft.since)
        draft.cursor = found.examined[-1]
    return Missed(number, draft.since, has_more=True)


def _draft(webhook: Webhook, since: datetime, until: datetime | None = None, **fields: Any) -> Replay:
    """Return an unsaved replay of the events since then."""
    now = timezone.now() + ONE_TICK
    until = now if until is None else min(until, now)
    return Replay(webhook=webhook, since=min(since, until), until=until, **fields)


def first_missed(
    webhook: Webhook, *, since: datetime, recovers_since: datetime | None = None
) -> tuple[Match | None, datetime | None]:
    """Return the oldest missed event since then, among the next ``MOST_COUNTED``, and the time of the first other one.

    The time is None if there are no other events. With ``recovers_since``, events do not count that a replay for this
    failure has already sent.
    """
    draft = _draft(webhook, since, states=missing_outcomes(), recovers_since=recovers_since)
    for _page in range(MOST_COUNTED // MOST_EVENTS):
        found = look(webhook.alias, draft)
        if found.matches:
            return found.matches[0], None
        if found.is_last:
            return None, None
        draft.cursor = found.examined[-1]
    return None, time_of(draft.cursor)


def missed_events(
    webhooks: Sequence[Webhook], since: datetime, until: datetime | None = None, *, is_for_owner: bool
) -> tuple[MissedByCause, set[str]]:
    """Count the events that these webhooks have missed since then; also return the webhooks that may have missed more.

    With ``until``, only those that were given up or cancelled, or not queued, before.

    Causes that the owner may not see are left out for them.
    """
    ids = [webhook.pk for webhook in webhooks]
    failed, unread = _failed(ids, since, until)
    settled = _delivered_or_pending([each.first_id or each.pk for each in failed])
    newest = {(each.webhook_id, each.event_id): each for each in reversed(failed)}.values()
    missed = (each for each in newest if (each.first_id or each.pk) not in settled)
    found = Counter((each.webhook_id, _cause(each)) for each in missed if not (each.is_masked and is_for_owner))
    never, more = _never_queued(webhooks, since, until)
    return found + never, unread | more


def failed(rows: Rows) -> Rows:
    """Return those of these deliveries that were given up or cancelled, but not because the filter does not match."""
    return rows.filter(kind=Delivery.Kind.EVENT, state__in=Delivery.LISTED_STATES).exclude(state_reason=MISMATCHED)


def still_missed(rows: Rows) -> Rows:
    """Return those of these deliveries whose event is missed."""
    settled = Delivery.objects.using(rows.db).filter(state__in=(State.PENDING, State.SUCCEEDED)).order_by()
    return failed(rows).exclude(
        Exists(settled.filter(redelivery_of=OuterRef("pk")))
        | Exists(settled.filter(redelivery_of=OuterRef("redelivery_of")))
        | Exists(settled.filter(pk=OuterRef("redelivery_of")))
    )


def delivered_instead(deliveries: Iterable[Delivery]) -> dict[str, Delivery]:
    """Return the latest successful delivery of the same event, by the identifiers of those that failed."""
    failed = {each.pk: each.redelivery_of_id or each.pk for each in deliveries if each.state in Delivery.LISTED_STATES}
    if not failed:
        return {}
    rows = Delivery.objects.filter(redelivery_of__in=set(failed.values()), state=State.SUCCEEDED).order_by("-pk")
    by_first = {each.redelivery_of_id: each for each in reversed(rows[:MOST_GIVEN_UP])}
    return {pk: by_first[first] for pk, first in failed.items() if first in by_first}


def _never_queued(
    webhooks: Sequence[Webhook], since: datetime, until: datetime | None
) -> tuple[MissedByCause, set[str]]:
    """Count the events that webhooks could not get, because they were stopped."""
    stopped = [each for each in webhooks if each.is_stopped or each.status_changed_at >= since]
    found: MissedByCause = Counter()
    more = {each.pk for each in stopped[MOST_STOPPED:]}
    for webhook in stopped[:MOST_STOPPED]:
        counted = count_missed(webhook, since=since, until=until, states=[Replay.Outcome.MISSED.value])
        found[webhook.pk, NEVER_QUEUED] = counted.number
        if counted.has_more:
            more.add(webhook.pk)
    return found, more


def _failed(webhook_ids: Sequence[str], since: datetime, until: datetime | None) -> tuple[list[Failed], set[str]]:
    """Return the latest deliveries given up or cancelled in a period, newest first, and webhooks that may have more."""
    rows = Delivery.objects.filter(kind=Delivery.Kind.EVENT)
    is_listed = rows.is_listed(State.GIVEN_UP)
    lists = [rows.in_state(state) for state in Delivery.LISTED_STATES] if is_listed else [rows]
    found: list[Failed] = []
    unread: set[str] = set(webhook_ids[MAX_RANGES:])
    for each in lists:
        # Deliveries are ordered by their creation, and short retries end before older long ones.
        some, others = _latest(created_within(each, since - _longest_span(), until), webhook_ids[:MAX_RANGES])
        found += some
        unread |= others
    ended = [
        each
        for each in found
        if each.is_failed and (at := each.finished_at or since) >= since and (until is None or at < until)
    ]
    return sorted(ended, key=lambda each: each.pk, reverse=True), unread


def _latest(rows: QuerySet[Delivery], webhook_ids: Sequence[str]) -> tuple[list[Failed], set[str]]:
    """Return the latest of these deliveries, and the webhooks that may have more of them."""
    found: list[Failed] = []
    unread, left, after = list(webhook_ids), MOST_GIVEN_UP, 0
    for _round in range(ROUNDS):
        share = left // (len(unread) or 1)
        if not unread or not share:
            break
        read = list(_read(newest_of_each(rows, Parts("webhook", unread), share, after=after)))
        found += read
        left, after = left - len(read), after + share
        numbers = Counter(each.webhook_id for each in read)
        unread = [pk for pk in unread if numbers[pk] == share]
    return found, set(unread)


def _longest_span() -> timedelta:
    """Return the longest time between the creation of a delivery and giving it up."""
    return WAITS + max(
        sum((max(delay * (1 + policy.jitter), policy.max_retry_after) for delay in policy.delays), timedelta())
        for policy in known_policies().values()
    )


def _read(ids: Sequence[str]) -> Iterator[Failed]:
    """Yield these deliveries, newest first, with the status of the answer to their last attempts."""
    last = DeliveryAttempt.objects.filter(delivery_id=OuterRef("pk"), number=OuterRef("attempt_count"))
    names = ("webhook", "event", "state", "last_result", "is_masked", "redelivery_of", "state_reason", "finished_at")
    rows = Delivery.objects.filter(pk__in=ids).order_by("-pk") if ids else Delivery.objects.none()
    for values in rows.values_list("pk", *names, Subquery(last.values("response_status")[:1])):
        yield Failed(*values)


def _delivered_or_pending(first_ids: Sequence[str]) -> set[str]:
    """Return those of the first deliveries whose event was delivered, by them or later, or is about to be sent."""
    if not first_ids:
        return set()
    settled = Delivery.objects.filter(state__in=(State.PENDING, State.SUCCEEDED)).order_by()
    own = settled.filter(pk__in=first_ids).values_list("pk", flat=True)
    later = settled.filter(redelivery_of__in=first_ids).values_list("redelivery_of", flat=True)
    return {str(pk) for pk in (*own, *later.distinct())}


def _cause(delivery: Failed) -> Cause:
    if not delivery.result:
        return CANCELLED
    is_answer = delivery.result == DeliveryAttempt.Result.HTTP_STATUS
    return Cause(delivery.result, (delivery.status or 0) if is_answer else 0)
