"""Carrying a replay on, a step at a time: count, or queue what there is room for.

A step is one transaction that holds the replay's row: it inserts deliveries and moves the cursor beyond their events,
or does neither. So a process may be killed anywhere, and any number of them may carry the same replay.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from django.db import connections, transaction

from ..database.sql import writing
from ..models import Delivery, Event, QueueEntry, Replay, Webhook
from ..models.hold import in_flight_limit, standing_reason, stop_reason
from ..models.rate_limit import LONG_AGO, RateLimit
from ..protocol.times import format_time
from ..signals import announce_deliveries
from .selection import Look, Match, look

logger = logging.getLogger("webhooks_app.replays")

SAMPLE = 10
CAPS_AHEAD = 2
"""How many times what its webhook takes at once may be pending: no more than that ever stands before a live event."""

AT_ONCE, SHORTLY, LATER, MUCH_LATER = 0.0, 0.05, 0.25, 1.0
"""After how many seconds a step may find more to do: nothing was in the way; what is queued must be sent first; the
rate is used up; the webhook holds everything back."""

STOPPED = {
    "webhook_deleted": "The webhook was deleted.",
    "webhook_disabled": "The webhook was disabled. Enable it, then resume.",
    "webhook_failed": "The webhook failed its verification. Verify it, then resume.",
}


def advance(using: str, replay_id: str, now: datetime) -> float | None:
    """Do the next step of a replay; return after how many seconds there may be more.

    None if there is nothing more to do, or if somebody else is at it.
    """
    with writing(using, Replay):
        replay = _locked(using, replay_id)
        if replay is None or not replay.is_under_way:
            return None
        step = _count if replay.state == Replay.State.COUNTING else _send
        return step(using, replay, now)


def count(using: str, replay: Replay, clock: Callable[[], datetime], *, max_seconds: float = math.inf) -> bool:
    """Go on counting for so long at most; return whether it is done. Workers do the rest."""
    ends_at = time.monotonic() + max_seconds
    while replay.state == Replay.State.COUNTING and time.monotonic() < ends_at:
        if advance(using, replay.pk, clock()) is None:
            time.sleep(SHORTLY / 10)  # a worker is at it
        replay.refresh_from_db(using=using)
    return replay.state != Replay.State.COUNTING


def _locked(using: str, replay_id: str) -> Replay | None:
    skips = connections[using].features.has_select_for_update_skip_locked
    rows = Replay.objects.using(using).select_for_update(skip_locked=skips)
    return rows.filter(pk=replay_id).first()


def _count(using: str, replay: Replay, now: datetime) -> float | None:
    found = look(using, replay)
    replay.matched += len(found.matches)
    replay.sample += [_described(match) for match in found.matches[: SAMPLE - len(replay.sample)]]
    if found.is_last:
        replay.state = Replay.State.READY
    _move(replay, found, "matched", "sample", "state")
    return None if found.is_last else AT_ONCE


def _send(using: str, replay: Replay, now: datetime) -> float | None:
    webhook = replay.webhook
    if reason := stop_reason(Delivery.Kind.EVENT, webhook):
        replay.state, replay.state_reason = Replay.State.STOPPED, STOPPED[reason]
        replay.save(update_fields=["state", "state_reason"])
        transaction.on_commit(lambda: _log(logging.WARNING, replay), using=using)
        return None
    if standing_reason(Delivery.Kind.EVENT, webhook):
        return MUCH_LATER
    rate_limit = RateLimit(per_second=replay.per_second, next_slot_at=replay.next_slot_at or LONG_AGO)
    allowance, room = rate_limit.allowance(now), _room(using, webhook)
    if min(allowance, room) <= 0:
        return LATER if room > 0 else SHORTLY
    found = look(using, replay, min(allowance, room))
    queued = _queue(using, replay, found.matches, now)
    replay.queued += queued
    replay.next_slot_at = rate_limit.after(queued, now).next_slot_at
    if found.is_last:
        replay.state, replay.finished_at = Replay.State.DONE, now
    _move(replay, found, "queued", "next_slot_at", "state", "finished_at")
    if found.is_last:
        transaction.on_commit(lambda: _log(logging.INFO, replay), using=using)
        return None
    if not found.is_cut:
        return AT_ONCE
    return LATER if allowance <= room else SHORTLY


def _move(replay: Replay, found: Look, *also: str) -> None:
    replay.examined += len(found.examined)
    if found.examined:
        replay.cursor = found.examined[-1]
    replay.save(update_fields=["cursor", "examined", *also])


def _room(using: str, webhook: Webhook) -> int:
    """Return how many more deliveries may wait for a webhook; about a second's where its own rate limit is lower."""
    limit = CAPS_AHEAD * in_flight_limit(webhook)
    if webhook.rate_limit is not None:
        limit = min(limit, math.ceil(webhook.rate_limit))
    pending = QueueEntry.objects.using(using).filter(webhook=webhook)
    return limit - pending.order_by()[:limit].count()


def _queue(using: str, replay: Replay, matches: Sequence[Match], now: datetime) -> int:
    """Insert deliveries that are due now, in the order of their events; return how many."""
    if not matches:
        return 0
    ids = [match.event_id for match in matches]
    # Pruning locks an event before it takes its body, or the event, away.
    events = Event.objects.using(using).select_for_update().filter(pk__in=ids).with_body()
    kept = set(events.order_by("pk").values_list("pk", flat=True))
    retries = replay.webhook.retries_of(Delivery.Kind.EVENT)
    deliveries = [
        Delivery(
            event_id=match.event_id,
            webhook=replay.webhook,
            redelivery_of_id=match.first_delivery_id,
            requested_by_id=replay.requested_by_id,
            replay=replay,
            **retries,
        )
        for match in matches
        if match.event_id in kept
    ]
    Delivery.objects.using(using).bulk_create(deliveries)
    QueueEntry.objects.using(using).add_in_order(deliveries, now)
    announce_deliveries(using, [replay.webhook_id])
    return len(deliveries)


def _described(match: Match) -> dict[str, str]:
    return {
        "event_id": match.event_id,
        "type": match.event_type,
        "created": format_time(match.created_at),
        "state": match.outcome,
    }


def _log(level: int, replay: Replay) -> None:
    attributes = {
        "replay_id": replay.pk,
        "webhook_id": replay.webhook_id,
        "state": replay.state,
        "matched": replay.matched,
        "queued": replay.queued,
    }
    words = (replay.pk, replay.state, replay.queued, replay.matched, replay.state_reason)
    logger.log(level, "Replay %s is %s after %d of %d events. %s", *words, extra=attributes)
