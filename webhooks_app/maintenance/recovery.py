"""Automatic recovery: the oldest missed event is sent again until the receiver answers, and then everything missed.

Everything that a step decides from is stored, and a step is one transaction that locks the webhook and its episode.
Processes can therefore be killed at any point, and several can run the same step.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count

from ..conf import offered_recoveries, retry_policy, settings
from ..database.sql import concerns_rows, upsert, writing
from ..exceptions import WebhookStateError
from ..models import Delivery, DeliveryAttempt, Episode, Event, QueueEntry, Replay, Webhook
from ..models.audit import Action, AuditEntry
from ..models.episode import DELAYS, delay_after, is_halted, is_refusing
from ..models.webhook import Order, Recovery
from ..reasons import code_of
from ..replays.missed import first_missed
from ..replays.planning import Match, plan_replay
from ..signals import announce_deliveries
from .notifications import notify_recovery_ended
from .rollups.folding import TalliedWebhook

logger = logging.getLogger("webhooks_app.maintenance")

LATER = timedelta(minutes=1)
"""The time to the next look at something that others change: the webhook's state, its queue, its replays."""

AFTER_ERROR = timedelta(hours=1)

EPISODES_AT_A_TIME = 200

BUDGET_SECONDS, LEAST_PAUSE_SECONDS = 0.2, 0.05

State = Replay.State
MOVED = ("missed_from", "failed_at", "succeeded_at", "attempts", "next_step_at")


class Step(enum.Enum):
    WAIT = "wait"
    ATTEMPT = "attempt"
    """Send the oldest missed event again."""
    REPLAY = "replay"
    """Send everything missed again."""
    START = "start"
    RESUME = "resume"
    END = "end"


class Decision(NamedTuple):
    step: Step
    next_step_at: datetime | None = None
    """When to decide again; None to decide by the outcome of the step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a step of a recovery is decided from."""

    failed_at: datetime
    """When the last delivery was given up."""
    attempts: int = 0
    """Recovery attempts since the last success."""
    is_wanted: bool = True
    """Whether the webhook exists, and recovers automatically."""
    is_stopped: bool = False
    """Whether it is paused, unverified or disabled."""
    is_failing: bool = True
    """Whether nothing has succeeded since ``failed_at``."""
    is_busy: bool = False
    """Whether deliveries to it are pending."""
    replays: int = 0
    """Replays of this episode so far. The following are about the last one."""
    replay: str = ""
    replay_reason: str = ""
    """The code of the reason of its state."""
    replayed_at: datetime | None = None
    has_pending: bool = False
    """Whether some of its deliveries are pending."""


def decide(situation: Situation, now: datetime, *, keep_for: timedelta) -> Decision:
    """Return the next step of a recovery. ``keep_for`` is for how long it goes on."""
    if not situation.is_wanted or situation.replay == State.CANCELLED:
        return Decision(Step.END)
    if situation.is_stopped or is_halted(situation.replay, situation.replay_reason):
        is_over = now - situation.failed_at > keep_for
        return Decision(Step.END) if is_over else Decision(Step.WAIT, now + LATER)
    if situation.is_failing:
        return _while_failing(situation, now)
    return _after_success(situation, now)


def _while_failing(situation: Situation, now: datetime) -> Decision:
    if situation.is_busy:  # these are attempts as well
        return Decision(Step.WAIT, now + LATER)
    due_at = situation.failed_at + delay_after(situation.attempts)
    return Decision(Step.WAIT, due_at) if due_at > now else Decision(Step.ATTEMPT, now + LATER)


def _after_success(situation: Situation, now: datetime) -> Decision:
    if situation.replay == State.READY:
        return Decision(Step.START, now + LATER)
    if situation.replay in (State.PAUSED, State.STOPPED):
        return Decision(Step.RESUME, now + LATER)
    if situation.replay in (State.COUNTING, State.RUNNING) or situation.has_pending:
        return Decision(Step.WAIT, now + LATER)
    if situation.replayed_at is None:
        return Decision(Step.REPLAY)
    due_at = situation.replayed_at + delay_after(situation.replays - 1)
    return Decision(Step.WAIT, due_at) if due_at > now else Decision(Step.REPLAY)


def note_missed(using: str, entries: Sequence[TalliedWebhook]) -> None:
    """Start and update episodes by folded results, in the fold's transaction."""
    rows = Episode.objects.using(using)
    ids = {entry.webhook_id for entry in entries}
    known: dict[str, Episode] = {}
    if ids and rows.exists():
        known = {row.webhook_id: row for row in rows.select_for_update().filter(pk__in=ids).order_by("pk")}
    failing = {entry.webhook_id for entry in entries if entry.counters.get("given_up")} - known.keys()
    recovering = _recovering(using, failing) if failing and Recovery.AUTOMATIC in offered_recoveries() else set()
    changed = {}
    for entry in entries:
        episode = known.get(entry.webhook_id)
        if episode is None and entry.webhook_id in recovering and entry.counters.get("given_up"):
            since = entry.missed_from or entry.recorded_at
            episode = known[entry.webhook_id] = Episode.of(entry.webhook_id, at=entry.recorded_at, missed_from=since)
            changed[entry.webhook_id] = episode
        if episode is not None and _note(episode, entry):
            changed[entry.webhook_id] = episode
    if changed:
        upsert(rows, list(changed.values()), unique=("webhook",), update=MOVED)


def _recovering(using: str, webhook_ids: set[str]) -> set[str]:
    webhooks = Webhook.objects.using(using).existing().filter(pk__in=webhook_ids)
    return set(webhooks.filter(recovery=Recovery.AUTOMATIC, order=Order.NONE).values_list("pk", flat=True))


def _note(episode: Episode, entry: TalliedWebhook) -> bool:
    """Apply one batch of results. Return True if the episode changed."""
    at, number = entry.recorded_at, entry.counters.get("given_up", 0)
    is_missed = bool(number) or entry.missed_from is not None
    if is_missed:
        episode.note_missed(at, entry.missed_from or at)
    is_success = entry.has_success and not entry.given_up_since_success
    return (is_success and episode.note_success(at)) or is_missed


def recover(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Run the due steps of all recoveries. Return the seconds until the next run if some are left."""
    began_at = time.monotonic()
    for webhook_id in list(Episode.objects.using(using).due(now).values_list("pk", flat=True)[:EPISODES_AT_A_TIME]):
        try:
            advance_recovery(using, webhook_id, now)
        except Exception as error:
            if not concerns_rows(error):
                raise
            logger.exception("The recovery of webhook %s failed.", webhook_id, extra={"webhook_id": webhook_id})
            Episode.objects.using(using).filter(pk=webhook_id).update(next_step_at=now + AFTER_ERROR)
        if time.monotonic() - began_at > BUDGET_SECONDS:
            return LEAST_PAUSE_SECONDS
    return None


def advance_recovery(using: str, webhook_id: str, now: datetime) -> Step | None:
    """Run the next step of a recovery, and return it, or None if it is not due."""
    with writing(using, Webhook):
        webhook = Webhook.objects.using(using).select_for_update().filter(pk=webhook_id).first()
        episodes = Episode.objects.using(using).select_for_update().filter(pk=webhook_id, next_step_at__lte=now)
        if webhook is None or (episode := episodes.first()) is None:
            return None
        keep_for = timedelta(days=settings.RECOVERY_DAYS)
        replays = list(
            Replay.objects.using(using).filter(webhook=webhook, recovers_since=episode.began_at).order_by("pk")
        )
        _note_attempt(episode)
        step, next_step_at = decide(_situation(webhook, episode, replays, now), now, keep_for=keep_for)
        # The age of an event counts from its end: a policy may retry for longer than missed events are sent again.
        oldest = now - keep_for - retry_policy(webhook.retry_policy).span
        since = max(episode.missed_from, oldest, webhook.created_at)
        if step is Step.ATTEMPT:
            next_step_at = _attempt(webhook, episode, since, now, next_step_at)
        elif step is Step.REPLAY:
            next_step_at = _replay(webhook, episode, since, now)
        elif step in (Step.START, Step.RESUME):
            _go_on(replays[-1], step)
        if next_step_at is None:
            _end(webhook, episode, replays)
        else:
            episode.next_step_at = next_step_at
            episode.save(update_fields=["next_step_at", "attempts", "missed_from", "last_attempt", "recovered"])
    return step


def _note_attempt(episode: Episode) -> None:
    """Count the last recovery attempt if it has succeeded. Begin with the short delays again if its worker was lost."""
    if not episode.last_attempt:
        return
    attempts = Delivery.objects.using(episode.alias).filter(pk=episode.last_attempt)
    state, result = attempts.values_list("state", "last_result").first() or ("", "")
    if state != Delivery.State.PENDING:
        episode.last_attempt = ""
        episode.recovered += state == Delivery.State.SUCCEEDED
    if result == DeliveryAttempt.Result.WORKER_LOST and episode.attempts >= len(DELAYS):
        # It tells nothing about the receiver. The delays grow again, because the event may be what ends workers.
        episode.attempts = 0


def _situation(webhook: Webhook, episode: Episode, replays: Sequence[Replay], now: datetime) -> Situation:
    using = webhook.alias
    last = replays[-1] if replays else None
    pending = QueueEntry.objects.using(using).filter(webhook=webhook, kind=Delivery.Kind.EVENT).order_by()
    return Situation(
        failed_at=episode.failed_at,
        attempts=episode.attempts,
        is_wanted=webhook.recovers_itself and not webhook.is_deleted,
        is_stopped=webhook.status != webhook.Status.ACTIVE or webhook.paused_at is not None,
        is_failing=is_refusing(webhook, now),
        is_busy=pending.exists(),
        replays=len(replays),
        replay=last.state if last else "",
        replay_reason=code_of(last.state_reason) if last else "",
        replayed_at=last.created_at if last else None,
        has_pending=last is not None and last.deliveries.pending().order_by("-pk").exists(),
    )


def _attempt(
    webhook: Webhook, episode: Episode, since: datetime, now: datetime, next_step_at: datetime | None
) -> datetime | None:
    """Send the oldest missed event again, with a single request. Return the time of the next step, None without one."""
    found = _first_missed(webhook, episode, since, now)
    if found.match is None:
        return found.next_step_at
    episode.last_attempt = _send(webhook, found.match).pk
    episode.attempts += 1
    return next_step_at


def _send(webhook: Webhook, match: Match) -> Delivery:
    using = webhook.alias
    fields: dict[str, Any] = {"purpose": Delivery.Purpose.RECOVERY_ATTEMPT, "max_attempts": 1}
    if match.first_delivery_id is not None:
        first = Delivery.objects.using(using).get(pk=match.first_delivery_id)
        first.webhook = webhook
        return first.redeliver(fields=fields)
    # Pruning locks an event before deleting it or its body.
    event = Event.objects.using(using).select_for_update().get(pk=match.event_id)
    delivery = Delivery.objects.using(using).queue(event=event, webhook=webhook, **fields)
    AuditEntry.objects.write(Action.DELIVERY_REDELIVERED, delivery, owner_id=webhook.owner_id, changes={})
    announce_deliveries(using)
    return delivery


class FirstMissed(NamedTuple):
    match: Match | None
    next_step_at: datetime | None = None
    """When to search on, or None if nothing is missed."""


def _first_missed(webhook: Webhook, episode: Episode, since: datetime, now: datetime) -> FirstMissed:
    """Return the oldest missed event that is not sent again in this episode, among the first few events.

    If there are more events, the episode begins its next search behind these.
    """
    match, rest_from = first_missed(webhook, since=since, recovers_since=episode.began_at)
    if match is None and rest_from is not None:
        episode.missed_from = rest_from
    return FirstMissed(match, now if rest_from is not None else None)


def _replay(webhook: Webhook, episode: Episode, since: datetime, now: datetime) -> datetime | None:
    """Plan a replay of everything missed. Return the time of the next step, or None if nothing is missed."""
    found = _first_missed(webhook, episode, since, now)
    if found.match is None:
        return found.next_step_at
    others = Replay.objects.using(webhook.alias).filter(webhook=webhook)
    if not others.under_way().exists():
        try:
            plan_replay(webhook, since=since, starts_when_counted=True, recovers_since=episode.began_at)
        except WebhookStateError as error:  # too many replays are open
            logger.warning("Webhook %s: %s", webhook.pk, error, extra={"webhook_id": webhook.pk})
            return now + AFTER_ERROR
    return now + LATER


def _go_on(replay: Replay, step: Step) -> None:
    """Start or resume a replay, unless another one of the webhook is running."""
    replay.lock()
    verb = replay.start if step is Step.START else replay.resume
    try:
        with transaction.atomic(using=replay.alias):
            verb()
    except WebhookStateError:
        logger.info("Replay %s has to wait.", replay.pk, extra={"replay_id": replay.pk})


def _end(webhook: Webhook, episode: Episode, replays: Sequence[Replay]) -> None:
    """End a recovery, and report what it has achieved."""
    recovered, given_up = _numbers(episode, replays)
    if recovered or given_up:
        notify_recovery_ended(webhook, episode, recovered=recovered, given_up=given_up)
    Episode.objects.using(webhook.alias).filter(pk=webhook.pk).delete()


def _numbers(episode: Episode, replays: Sequence[Replay]) -> tuple[int, int]:
    """Return how many missed events were delivered, and how many were given up again."""
    if not replays:
        return episode.recovered, 0
    rows = Delivery.objects.using(episode.alias).filter(replay__in=[replay.pk for replay in replays]).order_by()
    numbers = dict(rows.values_list("state").annotate(number=Count("pk")))
    delivered = numbers.get(Delivery.State.SUCCEEDED, 0)
    return episode.recovered + delivered, numbers.get(Delivery.State.GIVEN_UP, 0)
