"""The maintenance jobs. Any worker runs a due job after moving its next run, so no scheduler is necessary.

A job must tolerate concurrent runs: another worker takes over from one that is frozen.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from django.db import InterfaceError, OperationalError
from django.db.models import Case, Count, When
from django.db.models.functions import TruncMinute

from ..database.clock import following
from ..database.dialects import dialect_of
from ..database.sql import concerns_rows, kind_of
from ..models import MaintenanceJob, Problem, QueueEntry, RecentResults, Replay, Webhook
from ..models.audit import SYSTEM, acting
from ..models.hold import HoldReason, reason_expression
from ..models.standing import healths_of
from ..protocol.json_data import format_time
from ..replays.runner import advance
from .announcements import announce_expiry, announce_failing, announce_stopped
from .filtering import evaluate_filters
from .health import take_in, watch
from .mailing import send_due
from .recovery import recover
from .retention import delete_expired
from .rollups.folding import TALLIES_AT_A_TIME, Folded, fold
from .rollups.recent import Recent, pack, restless, sum_up

logger = logging.getLogger("webhooks_app.maintenance")

MAX_ERROR_LENGTH = 500
LOST_AFTER_SECONDS = 60.0
"""Time after which another worker takes over an unfinished job, for example of a killed one. Jobs override it whose
runs may overlap and whose delay people notice. A longer interval between its runs extends it."""

Facts: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[str, datetime, Facts], float | None]
"""A job's function. Its arguments are the database alias, the database's time, and the job's stored facts, which it may
change. It returns the seconds until the next run, or None for the usual interval."""

SHARE = 0.01
"""Maximum share of the time for counting and for repairs. A slow one is repeated less often."""

FORESEEN = timedelta(hours=1)

DUE = ("", HoldReason.RATE_LIMITED.value, HoldReason.UNSIGNED.value, HoldReason.SLOW.value)
HELD = (
    *(HoldReason.STOPPED.value, HoldReason.PAUSED.value, HoldReason.UNVERIFIED.value),
    HoldReason.FILTER_PENDING.value,
)
"""The reasons of deliveries that are due, and of those that need a change of their webhook."""

GAUGE_SECONDS, REPAIR_SECONDS, RECENT_SECONDS = 15.0, 60.0, 60.0

WEBHOOKS_AT_A_TIME, RECENT_SHARE = 200, 0.05
"""Webhooks whose recent results are summed up in one run, and the maximum share of the time for it."""

SUMMED_UP_SOON = 20
"""Webhooks with failed requests whose results are summed up after a fold, before their turn."""

BUDGET_SECONDS = 0.2
"""Maximum duration of one run, so that the other jobs can run."""

LEAST_PAUSE_SECONDS = 0.05

SINGLE_WRITER_AT_A_TIME = 50
"""Smaller batch for databases where a fold excludes all other writers."""

AGAIN_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    name: str
    every_seconds: float
    run: Run
    lost_after_seconds: float = LOST_AFTER_SECONDS


def gauge(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Count the queue in one scan: ``waiting``, with its parts ``due`` and ``held``, and ``in_flight``.

    ``held`` deliveries need a change of their webhook. They do not count as due. ``by_hold`` has the numbers of pending
    deliveries by the reason of their hold, and ``by_minute`` those that become due in each minute of the next hour.
    """
    began_at = time.monotonic()
    facts.update(_counts(using, now), at=format_time(now))
    took_seconds = time.monotonic() - began_at
    facts["took_ms"] = round(took_seconds * 1000)
    return max(GAUGE_SECONDS, took_seconds / SHARE)


def _counts(using: str, now: datetime) -> Facts:
    soon = When(due_at__gt=now, due_at__lt=now + FORESEEN, then=TruncMinute("due_at", tzinfo=UTC))
    entries = QueueEntry.objects.using(using).order_by().annotate(hold=reason_expression(now), minute=Case(soon))
    by_hold: Counter[str] = Counter()
    by_minute: Counter[str] = Counter()
    for hold, minute, number in entries.values_list("hold", "minute").annotate(number=Count("pk")):
        by_hold[hold] += number
        if hold == HoldReason.NOT_DUE and minute is not None:
            by_minute[format_time(minute.replace(tzinfo=UTC))] += number  # naive on PostgreSQL
    in_flight = by_hold[HoldReason.IN_FLIGHT.value]
    return {
        "waiting": by_hold.total() - in_flight,
        "due": sum(by_hold[reason] for reason in DUE),
        "held": sum(by_hold[reason] for reason in HELD),
        "in_flight": in_flight,
        "by_hold": {reason: number for reason, number in by_hold.items() if number},
        "by_minute": dict(by_minute),
    }


def repair_groups(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Make the first delivery of each group due if it is parked. Reads all parked deliveries."""
    began_at = time.monotonic()
    repaired = QueueEntry.objects.using(using).repair()
    if repaired:
        logger.warning("Deliveries parked without a blocker are due again: %d.", repaired)
        facts["repaired"] = facts.get("repaired", 0) + repaired
    return max(REPAIR_SECONDS, (time.monotonic() - began_at) / SHARE)


def advance_replays(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Advance the active replays. Return the seconds until the next step, or None without active replays."""
    began = time.monotonic()
    waits: dict[str, float] = dict.fromkeys(_in_turn(using, facts.get("after", "")), 0.0)
    while ready := [replay_id for replay_id, wait in waits.items() if wait == 0.0]:
        for replay_id in ready:
            facts["after"] = replay_id  # stored even after an error, so that the next run starts with another
            spent = time.monotonic() - began
            wait = _advance(using, replay_id, now + timedelta(seconds=spent))
            if wait is None:
                del waits[replay_id]
            else:
                waits[replay_id] = wait
            if time.monotonic() - began > BUDGET_SECONDS:
                return LEAST_PAUSE_SECONDS if waits else None
    return max(min(waits.values()), LEAST_PAUSE_SECONDS) if waits else None


def _advance(using: str, replay_id: str, now: datetime) -> float | None:
    """Run the next step of a replay as ``advance`` does, and stop it if a damaged row prevents the step."""
    try:
        return advance(using, replay_id, now)
    except Exception as error:
        if not concerns_rows(error):
            raise
        logger.exception("Replay %s is stopped by an error.", replay_id, extra={"replay_id": replay_id})
        rows = Replay.objects.using(using).under_way().filter(pk=replay_id)
        rows.update(state=Replay.State.STOPPED, state_reason=f"It was stopped by an error: {kind_of(error)}.")
        return None


def _in_turn(using: str, after: str) -> list[str]:
    """Return the active replays, starting after the last one that was advanced."""
    ids = sorted(Replay.objects.using(using).under_way().values_list("pk", flat=True))
    return [pk for pk in ids if pk > after] + [pk for pk in ids if pk <= after]


def fold_tallies(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Fold a batch of tallies, and update the health of their webhooks.

    The next batch follows after a short pause, in which workers can write.
    """
    limit = SINGLE_WRITER_AT_A_TIME if dialect_of(using).has_single_writer else TALLIES_AT_A_TIME
    folded = fold(using, limit=limit, also=lambda folded: take_in(using, folded))
    _sum_up_soon(using, folded, now)
    return AGAIN_SECONDS if folded.has_more else None


def _sum_up_soon(using: str, folded: Folded, now: datetime) -> None:
    """Sum up some of the webhooks whose requests failed, or that are in trouble: their state may have changed."""
    failed = {entry.webhook_id for entry in folded.webhooks if entry.refused}
    others = {entry.webhook_id for entry in folded.webhooks} - failed
    ids = [*sorted(failed), *restless(using, others)][:SUMMED_UP_SOON]
    existing = Webhook.objects.using(using).existing().filter(pk__in=ids) if ids else ()
    if found := [webhook.pk for webhook in existing]:
        _sum_up_some(using, found, now)


def judge_health(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Warn about webhooks that have been failing for a long time, and disable them after a longer time."""
    watch(using, now)
    return None


def make_announcements(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Announce failing webhooks, and what has waited for a person for too long."""
    began_at = time.monotonic()
    if announce_failing(using, now):
        return LEAST_PAUSE_SECONDS
    has_more = any([announce_stopped(using, now), announce_expiry(using, now)])
    return LEAST_PAUSE_SECONDS if has_more else max(60.0, (time.monotonic() - began_at) / SHARE)


def send_mails(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Send the mails that are due."""
    return LEAST_PAUSE_SECONDS if send_due(using, now) else None


def sum_up_recent(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Sum up the recent results of the next webhooks. ``as_of`` is the time since which all are up to date.

    ``standings`` has the numbers of webhooks by their standing in the last complete round.
    """
    began_at, after = time.monotonic(), facts.get("after", "")
    place = facts.get("place", 0) if after else 0
    webhooks = Webhook.objects.using(using).existing().filter(pk__gt=after).order_by("pk")
    ids = list(webhooks.values_list("pk", flat=True)[:WEBHOOKS_AT_A_TIME])
    if not after:
        facts["round"], facts["counted"] = format_time(now), {}
    found = _sum_up_some(using, ids, now)
    pack(using, place, ids, found)
    judged = healths_of(Webhook.objects.using(using).filter(pk__in=ids).select_related("health").readable(), now)
    counted = Counter(facts.get("counted", {}))
    counted.update(health.standing.value for health in judged.values())
    facts["counted"] = dict(counted)
    has_more = len(ids) == WEBHOOKS_AT_A_TIME
    facts["after"] = ids[-1] if has_more else ""
    facts["place"] = place + 1
    if not has_more:
        RecentResults.objects.using(using).filter(pk__gt=place).delete()
        facts["as_of"], facts["standings"] = facts["round"], facts["counted"]
    return max(LEAST_PAUSE_SECONDS if has_more else RECENT_SECONDS, (time.monotonic() - began_at) / RECENT_SHARE)


def _sum_up_some(using: str, webhook_ids: Sequence[str], now: datetime) -> Recent:
    try:
        return sum_up(using, webhook_ids, now)
    except Exception as error:
        if not concerns_rows(error):
            raise
        return _sum_up_one_by_one(using, webhook_ids, now)


def _sum_up_one_by_one(using: str, webhook_ids: Sequence[str], now: datetime) -> Recent:
    """Sum up the webhooks whose rows can be read. The others are logged and skipped."""
    found: Recent = {}
    for webhook_id in webhook_ids:
        try:
            found |= sum_up(using, [webhook_id], now)
        except Exception as error:
            if not concerns_rows(error):
                raise
            logger.error("Results of webhook %s cannot be summed up: %s.", webhook_id, kind_of(error))  # noqa: TRY400
    return found


def resolve_problems(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Resolve the problems that have not been seen since a success."""
    Problem.objects.using(using).resolve(now)
    return None


def forget_expired(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Delete the small and short-lived rows at the end of their retention."""
    delete_expired(using, now)
    return None


JOBS = (
    Job(name="fold", every_seconds=5, run=fold_tallies, lost_after_seconds=10),
    Job(name="health", every_seconds=60, run=judge_health),
    Job(name="announcements", every_seconds=60, run=make_announcements),
    Job(name="mails", every_seconds=60, run=send_mails),
    Job(name="replays", every_seconds=2, run=advance_replays, lost_after_seconds=5),
    Job(name="recovery", every_seconds=5, run=recover, lost_after_seconds=5),
    Job(name="filters", every_seconds=2, run=evaluate_filters),
    Job(name="gauges", every_seconds=GAUGE_SECONDS, run=gauge),
    Job(name="recent", every_seconds=RECENT_SECONDS, run=sum_up_recent),
    Job(name="problems", every_seconds=60, run=resolve_problems),
    Job(name="order", every_seconds=REPAIR_SECONDS, run=repair_groups),
    Job(name="forget", every_seconds=60, run=forget_expired),
)


def run_due(using: str, clock: Callable[[], datetime], jobs: Sequence[Job] = JOBS) -> datetime | None:
    """Run the due jobs that no other process is running. Return the next due time.

    None means that a row is missing, or that other processes run all the jobs. An error is logged, stored in the job's
    row and retried. Raise DatabaseError or InterfaceError if the database is unavailable.
    """
    names = [job.name for job in jobs]
    states = {state.name: state for state in MaintenanceJob.objects.using(using).filter(name__in=names)}
    planned: list[datetime] = []
    for job in jobs:
        state, now = states.get(job.name), clock()
        if state is None:
            continue
        if state.next_run_at > now:
            planned.append(state.next_run_at)
        elif state.take(now, now + timedelta(seconds=max(job.every_seconds, job.lost_after_seconds))):
            planned.append(_run(job, using, state, clock))
    return min(planned, default=None) if len(states) == len(names) else None


def _run(job: Job, using: str, state: MaintenanceJob, clock: Callable[[], datetime]) -> datetime:
    """Run a job that this process has taken; return its next due time."""
    assert state.started_at is not None
    now = state.started_at
    error, again_seconds = "", None
    try:
        with acting(SYSTEM), following(clock):
            again_seconds = job.run(using, now, state.facts)
    except (OperationalError, InterfaceError) as problem:
        # Records a lock timeout. An unavailable database raises again in the statement below.
        error = _described(problem)
    except Exception as problem:  # The other jobs must run nevertheless.
        logger.exception("The job %s failed.", job.name, extra={"job": job.name})
        error = _described(problem)
    ended_at = clock()
    seconds = job.every_seconds if again_seconds is None else again_seconds
    next_run_at = ended_at + timedelta(seconds=seconds)
    MaintenanceJob.objects.using(using).filter(name=job.name, started_at=now).update(
        ended_at=ended_at, error=error, facts=state.facts, next_run_at=next_run_at
    )
    return next_run_at


def _described(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:MAX_ERROR_LENGTH]
