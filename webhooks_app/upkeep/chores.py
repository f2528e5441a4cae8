"""The chores, and doing those that are due: whoever moves a chore's row on does it, so that no beat is needed.

A chore may not rely on being alone: its worker may have been frozen, and another have taken it over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db import InterfaceError, OperationalError
from django.db.models import Min

from ..models import ChoreState
from ..models.audit import SYSTEM, acting
from .gauges import gauge
from .housekeeping import fold_tallies, forget, judge_health
from .replaying import carry_replays

logger = logging.getLogger("webhooks_app.upkeep")

MAX_ERROR_LENGTH = 500
LOST_AFTER_SECONDS = 60.0
"""After how long another worker takes a chore over that was begun and is not over, unless the chore says otherwise or
is not due before."""

Facts: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[str, datetime, Facts], float | None]
"""Takes the database's alias, its time, and what the chore remembers, which it may change. Returns after how many
seconds it is to be done again, if not after the usual time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chore:
    name: str
    every_seconds: float
    run: Run
    lost_after_seconds: float = LOST_AFTER_SECONDS


CHORES = (
    Chore(name="fold", every_seconds=5, run=fold_tallies),
    Chore(name="health", every_seconds=60, run=judge_health),
    Chore(name="replays", every_seconds=2, run=carry_replays, lost_after_seconds=5),
    Chore(name="gauges", every_seconds=15, run=gauge),
    Chore(name="forget", every_seconds=60, run=forget),
)


def run_due(using: str, clock: Callable[[], datetime], chores: Sequence[Chore] = CHORES) -> None:
    """Do the chores that are due and that nobody else is doing. What fails is logged, told in its row and tried again.

    Raises DatabaseError or InterfaceError while the database is away.
    """
    for chore in chores:
        now = clock()
        states = ChoreState.objects.using(using)
        lost_at = now + timedelta(seconds=max(chore.every_seconds, chore.lost_after_seconds))
        if states.take(chore.name, now, lost_at):
            _run(chore, using, now, clock)


def next_due_at(using: str, chores: Sequence[Chore] = CHORES) -> datetime | None:
    """Return when the next of the chores is due, or was."""
    states = ChoreState.objects.using(using).filter(name__in=[chore.name for chore in chores])
    earliest: datetime | None = states.aggregate(at=Min("next_run_at"))["at"]
    return earliest


def _run(chore: Chore, using: str, now: datetime, clock: Callable[[], datetime]) -> None:
    state = ChoreState.objects.using(using).get(name=chore.name)
    error, again_seconds = "", None
    try:
        with acting(SYSTEM):
            again_seconds = chore.run(using, now, state.facts)
    except (OperationalError, InterfaceError) as problem:
        # A lock that was not to be had is told here; a database that is away, by what follows.
        error = _described(problem)
    except Exception as problem:  # The other chores are to be done all the same.
        logger.exception("The chore %s failed.", chore.name, extra={"chore": chore.name})
        error = _described(problem)
    ended_at = clock()
    seconds = chore.every_seconds if again_seconds is None else again_seconds
    ChoreState.objects.using(using).filter(name=chore.name, started_at=now).update(
        ended_at=ended_at, error=error, facts=state.facts, next_run_at=ended_at + timedelta(seconds=seconds)
    )


def _described(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:MAX_ERROR_LENGTH]
