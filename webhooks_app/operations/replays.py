"""Planning and controlling replays: sending many events to one webhook once more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from ..database.clock import DatabaseClock
from ..exceptions import WebhookStateError
from ..maintenance.health import take_in
from ..maintenance.rollups.folding import fold
from ..models import Replay, Webhook
from ..models.audit import acting
from ..models.health import FailingPeriod
from ..replays import missed, planning
from ..replays.missed import Missed
from ..replays.planning import failing_periods, plan_replay
from ..replays.runner import count
from .actions import RECOVER, STEPS_OF_REPLAYS
from .actors import BaseActor

__all__ = ["cancel", "pause", "plan", "recover_missed", "resume", "start"]

COUNT_SECONDS = 1.0
"""Maximum time for counting in the foreground. Workers do the rest."""

MAX_FOLDS = 20
"""Upper bound of the transactions in which planning folds tallies; workers fold the rest."""


def plan(
    webhook: Webhook,
    *,
    actor: BaseActor,
    since: datetime | None = None,
    until: datetime | None = None,
    event_types: Sequence[str] = (),
    states: Sequence[str] | None = None,
    rate: float | None = None,
    starts_when_counted: bool = False,
    max_seconds: float = COUNT_SECONDS,
) -> Replay:
    """Save and count a replay, with the defaults of ``plan_replay``.

    Nothing is sent before ``start``, unless it starts when it is counted. Counting takes at most ``max_seconds`` here,
    and continues in the background.

    Raise django.core.exceptions.ValidationError with the problems by field, and WebhookStateError for a webhook that
    is deleted, not subscribed to one of the types, or has too many open replays.
    """
    _fold(webhook.alias)
    with RECOVER.on(webhook, actor):
        replay = plan_replay(
            webhook,
            since=since,
            until=until,
            event_types=event_types,
            states=states,
            rate=rate,
            requested_by=actor.account,
            starts_when_counted=starts_when_counted,
        )
    with acting(actor):  # without the lock of the webhook
        count(replay.alias, replay, DatabaseClock(replay.alias), max_seconds=max_seconds)
    return replay


def recover_missed(webhook: Webhook, *, actor: BaseActor) -> Replay:
    """Plan a replay of the events missed since the first failing period of the last week. Raise as ``plan``."""
    return plan(webhook, actor=actor)


def send_missed(webhook: Webhook, *, actor: BaseActor, max_seconds: float = COUNT_SECONDS) -> Replay:
    """Plan the replay of ``recover_missed``, which starts when it is counted: here, or by a worker if it takes longer.

    Raise as ``plan`` and ``start``. A plan whose start is refused is cancelled, with the refusal as its reason.
    """
    replay = plan(webhook, actor=actor, starts_when_counted=True, max_seconds=max_seconds)
    if replay.state == Replay.State.CANCELLED:
        raise WebhookStateError(replay.state_reason)
    return replay


def count_missed(webhook: Webhook, *, since: datetime | None = None) -> Missed:
    """Return the number of events missed since then, a lower bound if there are very many.

    The default is what ``recover_missed`` would send.
    """
    _fold(webhook.alias)
    return missed.count_missed(webhook, since=since)


def count_all_missed(webhooks: Sequence[Webhook]) -> list[Missed]:
    """Return what ``recover_missed`` would send to each of these webhooks. The more they are, the fewer are counted."""
    if webhooks:
        _fold(webhooks[0].alias)
    return missed.count_missed_of_each(webhooks)


def failures_of(webhook: Webhook) -> list[FailingPeriod]:
    """Return the failing periods of the last week, the latest last."""
    _fold(webhook.alias)
    return failing_periods(webhook)


def missed_since(webhook: Webhook) -> datetime:
    """Return the time at which ``recover_missed`` starts to replay."""
    _fold(webhook.alias)
    return planning.missed_since(webhook)


def _fold(using: str) -> None:
    """Fold the latest tallies, so that the failing periods are up to date."""
    for _ in range(MAX_FOLDS):
        if not fold(using, also=partial(take_in, using)).has_more:
            return


def start(replay: Replay, *, actor: BaseActor) -> None:
    """Send the counted events; workers queue them.

    Raise WebhookStateError unless the replay is ready, its webhook can receive, and no other of its replays runs.
    """
    with STEPS_OF_REPLAYS["start"].on(replay, actor):
        replay.start()


def pause(replay: Replay, *, actor: BaseActor) -> None:
    """Queue nothing until the replay is resumed. Raise WebhookStateError unless it is running."""
    with STEPS_OF_REPLAYS["pause"].on(replay, actor):
        replay.pause()


def resume(replay: Replay, *, actor: BaseActor) -> None:
    """Continue a replay. Raise WebhookStateError unless it is paused or stopped."""
    with STEPS_OF_REPLAYS["resume"].on(replay, actor):
        replay.resume()


def cancel(replay: Replay, *, actor: BaseActor, reason: str = "") -> None:
    """Cancel a replay permanently, with its pending deliveries. Raise WebhookStateError if it has ended.

    ``reason`` is for the owner and the audit log.
    """
    with STEPS_OF_REPLAYS["cancel"].on(replay, actor):
        replay.cancel(reason)
