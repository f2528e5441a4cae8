"""The maintenance jobs. Any worker runs a due job after moving its next run, so no scheduler is necessary.

A job must tolerate concurrent runs: another worker takes over from one that is frozen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import InterfaceError, OperationalError

from ..database.clock import following
from ..models import MaintenanceJob
from ..models.audit import SYSTEM, acting
from .filtering import evaluate_filters
from .gauges import gauge
from .housekeeping import fold_tallies, forget, judge_health
from .ordering import repair_groups
from .replaying import advance_replays

logger = logging.getLogger("webhooks_app.maintenance")

MAX_ERROR_LENGTH = 500
LOST_AFTER_SECONDS = 60.0
"""Time after which another worker takes over an unfinished job. A job can override it, and a longer interval between
its runs extends it."""

Facts: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[str, datetime, Facts], float | None]
"""A job's function. Its arguments are the database alias, the database's time, and the job's stored facts, which it may
change. It returns the seconds until the next run, or None for the usual interval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    name: str
    every_seconds: float
    run: Run
    lost_after_seconds: float = LOST_AFTER_SECONDS


JOBS = (
    Job(name="fold", every_seconds=5, run=fold_tallies),
    Job(name="health", every_seconds=60, run=judge_health),
    Job(name="replays", every_seconds=2, run=advance_replays, lost_after_seconds=5),
    Job(name="filters", every_seconds=2, run=evaluate_filters),
    Job(name="gauges", every_seconds=15, run=gauge),
    Job(name="order", every_seconds=60, run=repair_groups),
    Job(name="forget", every_seconds=60, run=forget),
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
