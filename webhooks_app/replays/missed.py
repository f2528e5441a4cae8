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
from .planning import MOST_EVENTS, ONE_TICK, Examined, Match, look, missed_since

MOST_READ = 6500
"""Rows that are read to count missed events, of the 10,000 that a page may read. An event costs two, and its deliveries
to all webhooks one each: with three webhooks, 1,300 events are examined."""

FIRST_EXAMINED, EXAMINED_AT_ONCE = 100, 500
"""Events that are examined first, to know how many deliveries an event has; and at once. For more, PostgreSQL might
read the events of all accounts."""

MOST_SEARCHED = 3000
"""Events among which a worker looks for a missed one."""

MOST_GIVEN_UP, MOST_CANCELLED = 1000, 200
"""Given-up and cancelled deliveries that are read, the latest of each webhook. Each costs up to four rows."""

MOST_STOPPED, MOST_READ_OF_STOPPED = 20, 1500
"""Stopped webhooks whose events are examined for those that were never queued, and the rows that are read for that."""

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
    rows: int = 0
    """The number of rows that were read."""

    @property
    def is_possible(self) -> bool:
        """Whether there are any, or may be among the later events."""
        return self.number > 0 or self.has_more


def count_missed(
    webhook: Webhook,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    states: Sequence[str] = (),
    most: int | None = None,
) -> Missed:
    """Count the events missed since then, the oldest first, as far as ``most`` rows suffice; save nothing.

    The default is what ``plan_replay`` covers by default, and ``MOST_READ``. ``states`` limits the events to some
    outcomes.
    """
    since = missed_since(webhook) if since is None else max(since, webhook.created_at)
    draft = _draft(webhook, since, until, states=list(states) or missing_outcomes())
    most = MOST_READ if most is None else most
    size, left, number = max(1, min(FIRST_EXAMINED, most // 40)), most, 0
    while size:
        found = look(webhook.alias, draft, size=size, most=left)
        number, left = number + len(found.matches), left - found.rows
        if found.is_last:
            return Missed(number, draft.since, rows=most - left)
        if found.examined:
            draft.cursor = found.examined[-1]
        size = _next_size(found, size, left) if 4 * left > most else 0
    return Missed(number, draft.since, has_more=True, rows=most - left)


def _next_size(found: Examined, size: int, left: int) -> int:
    """Return how many events to examine next, so that they take most of the rows that are left. Other events vary."""
    return min(EXAMINED_AT_ONCE, 3 * left * size // (4 * found.rows)) if found.examined else size // 10


def count_missed_of_each(webhooks: Sequence[Webhook], *, most: int | None = None, **which: Any) -> list[Missed]:
    """Count the events that each webhook has missed. Of ``most`` rows in all, each leaves to the others what it spares.

    ``which`` are the arguments of ``count_missed``.
    """
    found: list[Missed] = []
    most = MOST_READ if most is None else most
    for place, webhook in enumerate(webhooks):
        found.append(count_missed(webhook, most=most // (len(webhooks) - place), **which))
        most = max(0, most - found[-1].rows)
    return found


def _draft(webhook: Webhook, since: datetime, until: datetime | None = None, **fields: Any) -> Replay:
    """Return an unsaved replay of the events since then."""
    now = timezone.now() + ONE_TICK
    until = now if until is None else min(until, now)
    return Replay(webhook=webhook, since=min(since, until), until=until, **fields)


def first_missed(
    webhook: Webhook, *, since: datetime, recovers_since: datetime | None = None
) -> tuple[Match | None, datetime | None]:
    """Return the oldest missed event since then, among the next ``MOST_SEARCHED``, and the time of the first other one.

    The time is None if there are no other events. With ``recovers_since``, events do not count that a replay for this
    failure has already sent.
    """
    draft = _draft(webhook, since, states=missing_outcomes(), recovers_since=recovers_since)
    for _page in range(MOST_SEARCHED // MOST_EVENTS):
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
    settled = _delivered_or_pending(failed)
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
    read, which = stopped[:MOST_STOPPED], {"since": since, "until": until, "states": [Replay.Outcome.MISSED.value]}
    for webhook, counted in zip(read, count_missed_of_each(read, most=MOST_READ_OF_STOPPED, **which), strict=True):
        found[webhook.pk, NEVER_QUEUED] = counted.number
        if counted.has_more:
            more.add(webhook.pk)
    return found, more


def _failed(webhook_ids: Sequence[str], since: datetime, until: datetime | None) -> tuple[list[Failed], set[str]]:
    """Return the latest deliveries given up or cancelled in a period, newest first, and webhooks that may have more."""
    rows = Delivery.objects.filter(kind=Delivery.Kind.EVENT)
    is_listed = rows.is_listed(State.GIVEN_UP)
    most = {State.GIVEN_UP: MOST_GIVEN_UP, State.CANCELLED: MOST_CANCELLED}
    lists = [(rows.in_state(state), number) for state, number in most.items()]
    found: list[Failed] = []
    unread: set[str] = set(webhook_ids[MAX_RANGES:])
    for each, number in lists if is_listed else [(rows, MOST_GIVEN_UP)]:
        # Deliveries are ordered by their creation, and short retries end before older long ones.
        created = created_within(each, since - _longest_span(), until)
        some, others = _latest(created, webhook_ids[:MAX_RANGES], number)
        found += some
        unread |= others
    ended = [
        each
        for each in found
        if each.is_failed and (at := each.finished_at or since) >= since and (until is None or at < until)
    ]
    return sorted(ended, key=lambda each: each.pk, reverse=True), unread


def _latest(rows: QuerySet[Delivery], webhook_ids: Sequence[str], most: int) -> tuple[list[Failed], set[str]]:
    """Return the latest of these deliveries, and the webhooks that may have more of them."""
    found: list[Failed] = []
    unread, left, after = list(webhook_ids), most, 0
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


def _delivered_or_pending(failed: Sequence[Failed]) -> set[str]:
    """Return the first deliveries whose event was delivered, by them or later, or is about to be sent."""
    if not failed:
        return set()
    settled = Delivery.objects.filter(state__in=(State.PENDING, State.SUCCEEDED)).order_by()
    others = {each.first_id for each in failed if each.first_id}
    own = settled.filter(pk__in=others).values_list("pk", flat=True) if others else ()
    first_ids = {each.first_id or each.pk for each in failed}
    later = settled.filter(redelivery_of__in=first_ids).values_list("redelivery_of", flat=True)
    return {str(pk) for pk in (*own, *later.distinct())}


def _cause(delivery: Failed) -> Cause:
    if not delivery.result:
        return CANCELLED
    is_answer = delivery.result == DeliveryAttempt.Result.HTTP_STATUS
    return Cause(delivery.result, (delivery.status or 0) if is_answer else 0)
