"""The events that webhooks have missed in a period, counted by the cause for which their deliveries were given up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from django.db.models import OuterRef, Subquery
from django.utils import timezone

from ..conf import known_policies
from ..models import Delivery, DeliveryAttempt, Replay, Webhook
from ..models.keyset import MAX_RANGES, Parts, created_within, newest_of_each
from ..models.problem import Cause
from ..models.replay import missing_outcomes
from ..protocol.ids import time_of
from .planning import MOST_COUNTED, MOST_EVENTS, ONE_TICK, Match, look

MOST_GIVEN_UP = 1200
"""Given-up deliveries that are read, the latest of each webhook."""

ROUNDS = 3
"""Rounds of reading. Webhooks with few given-up deliveries leave their share to the others."""

LAST_ID = "dlv_" + "f" * 32

State = Delivery.State

WAITS = timedelta(hours=1)
"""Time for attempts and in the queue, besides the delays of retries. Longer pauses are not considered."""

MissedByCause: TypeAlias = "Counter[tuple[str, Cause]]"
"""Numbers of events by webhook and cause."""


class GivenUp(NamedTuple):
    pk: str
    webhook_id: str
    event_id: str | None
    state: str
    result: str
    is_masked: bool
    first_id: str | None
    finished_at: datetime | None
    status: int | None


def first_missed(
    webhook: Webhook, *, since: datetime, recovers_since: datetime | None = None
) -> tuple[Match | None, datetime | None]:
    """Return the oldest missed event since then, among the next ``MOST_COUNTED``, and the time of the first other one.

    The time is None if there are no other events. With ``recovers_since``, events do not count that a replay for this
    failure has already sent.
    """
    until = timezone.now() + ONE_TICK
    draft = Replay(
        webhook=webhook, since=min(since, until), until=until, states=missing_outcomes(), recovers_since=recovers_since
    )
    for _page in range(MOST_COUNTED // MOST_EVENTS):
        found = look(webhook.alias, draft)
        if found.matches:
            return found.matches[0], None
        if found.is_last:
            return None, None
        draft.cursor = found.examined[-1]
    return None, time_of(draft.cursor)


def missed_events(webhook_ids: Sequence[str], since: datetime, *, is_for_owner: bool) -> tuple[MissedByCause, set[str]]:
    """Count the events that these webhooks have missed; also return the webhooks that may have missed more.

    An event is missed if its delivery was given up since then, and is neither sent again with success nor about to be.
    Causes that the owner may not see are left out for them.
    """
    given_up, unread = _given_up(webhook_ids, since)
    again = _sent_again([each.first_id or each.pk for each in given_up])
    newest = {(each.webhook_id, each.event_id): each for each in reversed(given_up)}.values()
    missed = (each for each in newest if again[each.first_id or each.pk] < each.pk)
    return Counter((each.webhook_id, _cause(each)) for each in missed if not (each.is_masked and is_for_owner)), unread


def _given_up(webhook_ids: Sequence[str], since: datetime) -> tuple[list[GivenUp], set[str]]:
    """Return the latest deliveries given up since then, newest first, and the webhooks that may have more of them."""
    rows = Delivery.objects.all()
    rows = rows.in_state(State.GIVEN_UP) if rows.is_listed(State.GIVEN_UP) else rows
    rows = rows.filter(kind=Delivery.Kind.EVENT)
    # Deliveries are ordered by their creation, and short retries end before older long ones.
    recent = created_within(rows, since - _longest_span())
    found: list[GivenUp] = []
    unread, left, after = list(webhook_ids[:MAX_RANGES]), MOST_GIVEN_UP, 0
    for _round in range(ROUNDS):
        share = left // (len(unread) or 1)
        if not unread or not share:
            break
        read = list(_read(newest_of_each(recent, Parts("webhook", unread), share, after=after)))
        found += read
        left, after = left - len(read), after + share
        numbers = Counter(each.webhook_id for each in read)
        unread = [pk for pk in unread if numbers[pk] == share]
    ended = [each for each in found if each.state == State.GIVEN_UP and (each.finished_at or since) >= since]
    return sorted(ended, key=lambda each: each.pk, reverse=True), {*unread, *webhook_ids[MAX_RANGES:]}


def _longest_span() -> timedelta:
    """Return the longest time between the creation of a delivery and giving it up."""
    return WAITS + max(
        sum((max(delay * (1 + policy.jitter), policy.max_retry_after) for delay in policy.delays), timedelta())
        for policy in known_policies().values()
    )


def _read(ids: Sequence[str]) -> Iterator[GivenUp]:
    """Yield these deliveries, newest first, with the status of the answer to their last attempts."""
    last = DeliveryAttempt.objects.filter(delivery_id=OuterRef("pk"), number=OuterRef("attempt_count"))
    names = ("webhook", "event", "state", "last_result", "is_masked", "redelivery_of", "finished_at")
    rows = Delivery.objects.filter(pk__in=ids).order_by("-pk") if ids else Delivery.objects.none()
    for values in rows.values_list("pk", *names, Subquery(last.values("response_status")[:1])):
        yield GivenUp(*values)


def _sent_again(first_ids: Sequence[str]) -> defaultdict[str, str]:
    """Return the last successful delivery of the same event, by the identifier of the first one. A pending one wins."""
    found: defaultdict[str, str] = defaultdict(str)
    if first_ids:
        later = Delivery.objects.filter(redelivery_of__in=first_ids, state__in=(State.PENDING, State.SUCCEEDED))
        rows = later.order_by("-pk").values_list("redelivery_of", "pk", "state")[:MOST_GIVEN_UP]
        for first_id, pk, state in rows:
            found[str(first_id)] = max(found[str(first_id)], LAST_ID if state == State.PENDING else pk)
    return found


def _cause(delivery: GivenUp) -> Cause:
    is_answer = delivery.result == DeliveryAttempt.Result.HTTP_STATUS
    return Cause(delivery.result, (delivery.status or 0) if is_answer else 0)
