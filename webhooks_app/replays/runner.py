"""The steps of a replay: count events, or queue as many deliveries as the limits allow.

A step is one transaction that locks the replay's row. It inserts deliveries and moves the cursor past their events.
Processes can therefore be killed at any point, and several can run the same replay.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db import connections, transaction

from ..database.sql import writing
from ..exceptions import WebhookStateError
from ..models import Delivery, Episode, Event, QueueEntry, Replay
from ..models.episode import is_refusing
from ..models.fields import compact_json
from ..models.hold import in_flight_limit, standing_reason
from ..models.limits import RateLimit
from ..models.status import stop_reason
from ..protocol.json_data import format_time
from ..reasons import ReasonText
from ..routing import is_readable
from ..signals import announce_deliveries
from .planning import Examined, Match, look

logger = logging.getLogger("webhooks_app.replays")

SAMPLE = 10
CAPS_AHEAD = 2
"""Pending deliveries of a replay at most, as a multiple of the webhook's concurrency. Live events queue behind them."""

AT_ONCE, SHORTLY, LATER, MUCH_LATER = 0.0, 0.05, 0.25, 1.0
"""Seconds until the next step: without a limit; while the queue is full; at the rate limit; while the webhook is
paused or unverified."""

STOPPED = {
    "webhook_deleted": ReasonText("webhook_was_deleted"),
    "webhook_disabled": ReasonText("webhook_was_disabled"),
    "webhook_failed": ReasonText("verification_failed"),
}


CAREFUL = timedelta(minutes=1)
"""Time after the first success in which a recovery uses a quarter of the webhook's concurrency, instead of half."""


def advance(using: str, replay_id: str, now: datetime) -> float | None:
    """Run the next step of a replay. Return the seconds until the next one.

    Return None if the replay is finished, or locked by another process.
    """
    with writing(using, Replay):
        replay = _locked(using, replay_id)
        if replay is None or not replay.is_under_way:
            return None
        step = _count if replay.state == Replay.State.COUNTING else _send
        return step(using, replay, now)


def count(using: str, replay: Replay, clock: Callable[[], datetime], *, max_seconds: float = math.inf) -> bool:
    """Count for at most ``max_seconds``. Return True if the count is complete. Workers do the rest."""
    ends_at = time.monotonic() + max_seconds
    while replay.state == Replay.State.COUNTING and time.monotonic() < ends_at:
        if advance(using, replay.pk, clock()) is None:
            time.sleep(SHORTLY / 10)  # a worker is counting
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
    if found.is_last and replay.matched:
        replay.state = Replay.State.READY
    elif found.is_last:
        _end(using, replay, now)
    _move(replay, found, "matched", "sample", "state", "finished_at")
    if replay.state == Replay.State.READY and replay.starts_when_counted:
        return _start(using, replay)
    return None if found.is_last else AT_ONCE


def _start(using: str, replay: Replay) -> float | None:
    """Start a counted replay. If that is refused, cancel it, with the refusal as its reason."""
    try:
        with transaction.atomic(using=using):
            replay.start()
    except WebhookStateError as error:
        if replay.recovers_since is not None:
            return None  # the recovery starts it later
        replay.cancel(error.args[0])  # with its code
        return None
    return AT_ONCE


def _send(using: str, replay: Replay, now: datetime) -> float | None:
    webhook = replay.webhook
    if reason := stop_reason(Delivery.Kind.EVENT, webhook):
        replay.state, replay.state_reason = Replay.State.STOPPED, STOPPED[reason]
        replay.save(update_fields=["state", "state_reason"])
        transaction.on_commit(lambda: _log(logging.WARNING, replay), using=using)
        return None
    if replay.recovers_since is not None and is_refusing(webhook, now):
        replay.pause(ReasonText("receiver_fails_again"))
        return None
    is_filtered = webhook.filter is not None
    if standing_reason(Delivery.Kind.EVENT, webhook) or (is_filtered and not is_readable(compact_json(webhook.filter))):
        return MUCH_LATER
    rate_limit = RateLimit.of(replay.per_second, replay.next_slot_at)
    allowance, room = rate_limit.allowance(now), _room(using, replay, now)
    if min(allowance, room) <= 0:
        return LATER if room > 0 else SHORTLY
    found = look(using, replay, min(allowance, room))
    queued = _queue(using, replay, found.matches, now)
    replay.queued += queued
    replay.next_slot_at = rate_limit.after(queued, now).next_slot_at
    if found.is_last:
        _end(using, replay, now)
    _move(replay, found, "queued", "next_slot_at", "state", "finished_at")
    if found.is_last:
        return None
    if not found.is_cut:
        return AT_ONCE
    return LATER if allowance <= room else SHORTLY


def _end(using: str, replay: Replay, now: datetime) -> None:
    replay.state, replay.finished_at = Replay.State.DONE, now
    transaction.on_commit(lambda: _log(logging.INFO, replay), using=using)


def _move(replay: Replay, found: Examined, *also: str) -> None:
    replay.examined += len(found.examined)
    if found.examined:
        replay.cursor = found.examined[-1]
    replay.save(update_fields=["cursor", "examined", *also])


def _room(using: str, replay: Replay, now: datetime) -> int:
    """Return the number of deliveries that may still be queued: about one second's worth for a rate-limited webhook."""
    webhook = replay.webhook
    if replay.recovers_since is None:
        limit = CAPS_AHEAD * in_flight_limit(webhook)
    else:
        episode = Episode.objects.using(using).filter(pk=webhook.pk).first()
        limit = width_of_recovery(in_flight_limit(webhook), episode.succeeded_at if episode else None, now)
    if webhook.rate_limit is not None:
        limit = min(limit, math.ceil(webhook.rate_limit))
    pending = QueueEntry.objects.using(using).filter(webhook=webhook, filter_at=None)
    return limit - pending.order_by()[:limit].count()


def width_of_recovery(in_flight: int, succeeded_at: datetime | None, now: datetime) -> int:
    """Return how many deliveries may be pending at once, for a webhook with this concurrency.

    It is less than the concurrency, so that new events need not wait, and less still at first: the receiver was down
    until its first success, or that time is unknown.
    """
    is_early = succeeded_at is not None and now - succeeded_at < CAREFUL
    return max(1, in_flight // (4 if is_early else 2))


def _queue(using: str, replay: Replay, matches: Sequence[Match], now: datetime) -> int:
    """Insert deliveries that are due now, in the order of their events. Return their number."""
    if not matches:
        return 0
    ids = [match.event_id for match in matches]
    # Pruning locks an event before deleting it or its body.
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
    Delivery.objects.using(using).queue_all(deliveries, now)
    unsure = {match.event_id for match in matches if match.awaits_filter}
    if held := [delivery.pk for delivery in deliveries if delivery.event_id in unsure]:
        QueueEntry.objects.using(using).filter(pk__in=held).await_filter()
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
