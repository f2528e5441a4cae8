"""The jobs, and doing those that are due: whoever moves a job's row on does it, so that no beat is needed.

A job may not rely on being alone: its worker may have been frozen, and another have taken it over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import InterfaceError, OperationalError
from django.db.models import Min

from ..models import MaintenanceJob
from ..models.audit import SYSTEM, acting
from .gauges import gauge
from .housekeeping import fold_tallies, forget, judge_health
from .ordering import repair_groups
from .replaying import carry_replays

logger = logging.getLogger("webhooks_app.maintenance")

MAX_ERROR_LENGTH = 500
LOST_AFTER_SECONDS = 60.0
"""After how long another worker takes a job over that was begun and is not over, unless the job says otherwise or
is not due before."""

Facts: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[str, datetime, Facts], float | None]
"""Takes the database's alias, its time, and what the job remembers, which it may change. Returns after how many
seconds it is to be done again, if not after the usual time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    name: str
    every_seconds: float
    run: Run
    lost_after_seconds: float = LOST_AFTER_SECONDS


JOBS = (
    Job(name="fold", every_seconds=5, run=fold_tallies),
    Job(name="health", every_seconds=60, run=judge_health),
    Job(name="replays", every_seconds=2, run=carry_replays, lost_after_seconds=5),
    Job(name="gauges", every_seconds=15, run=gauge),
    Job(name="order", every_seconds=60, run=repair_groups),
    Job(name="forget", every_seconds=60, run=forget),
)


def run_due(using: str, clock: Callable[[], datetime], jobs: Sequence[Job] = JOBS) -> None:
    """Do the jobs that are due and that nobody else is doing. What fails is logged, told in its row and tried again.

    Raises DatabaseError or InterfaceError while the database is away.
    """
    states = MaintenanceJob.objects.using(using)
    due = set(states.filter(next_run_at__lte=clock()).values_list("name", flat=True))
    for job in (job for job in jobs if job.name in due):
        now = clock()
        lost_at = now + timedelta(seconds=max(job.every_seconds, job.lost_after_seconds))
        if states.take(job.name, now, lost_at):
            _run(job, using, now, clock)


def next_due_at(using: str, jobs: Sequence[Job] = JOBS) -> datetime | None:
    """Return when the next of the jobs is due, or was."""
    states = MaintenanceJob.objects.using(using).filter(name__in=[job.name for job in jobs])
    earliest: datetime | None = states.aggregate(at=Min("next_run_at"))["at"]
    return earliest


def _run(job: Job, using: str, now: datetime, clock: Callable[[], datetime]) -> None:
    state = MaintenanceJob.objects.using(using).get(name=job.name)
    error, again_seconds = "", None
    try:
        with acting(SYSTEM):
            again_seconds = job.run(using, now, state.facts)
    except (OperationalError, InterfaceError) as problem:
        # A lock that was not to be had is told here; a database that is away, by what follows.
        error = _described(problem)
    except Exception as problem:  # The other jobs are to be done all the same.
        logger.exception("The job %s failed.", job.name, extra={"job": job.name})
        error = _described(problem)
    ended_at = clock()
    seconds = job.every_seconds if again_seconds is None else again_seconds
    MaintenanceJob.objects.using(using).filter(name=job.name, started_at=now).update(
        ended_at=ended_at, error=error, facts=state.facts, next_run_at=ended_at + timedelta(seconds=seconds)
    )


def _described(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:MAX_ERROR_LENGTH]
