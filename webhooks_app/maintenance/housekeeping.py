"""The jobs for tallies: folding them, judging the health of webhooks, and deleting expired data."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ..database.dialects import dialect_of
from ..models import StoredAnswer, WorkerProcess
from .health.monitor import take_in, watch
from .rollups.folding import TALLIES_AT_A_TIME, fold, forget_old

SINGLE_WRITER_AT_A_TIME = 50
"""Smaller batch for databases where a fold excludes all other writers."""

AGAIN_SECONDS = 0.1
PROCESSES_KEPT = timedelta(days=1)


def fold_tallies(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Fold a batch of tallies, and update the health of their webhooks.

    The next batch follows after a short pause, in which workers can write.
    """
    limit = SINGLE_WRITER_AT_A_TIME if dialect_of(using).has_single_writer else TALLIES_AT_A_TIME
    folded = fold(using, limit=limit, also=lambda folded: take_in(using, folded))
    return AGAIN_SECONDS if folded.has_more else None


def judge_health(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Warn about webhooks that have been failing for a long time, and disable them after a longer time."""
    watch(using, now)
    return None


def forget(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Delete roll-ups and stored answers at the end of their retention, and processes that ended long ago."""
    forget_old(using, now)
    StoredAnswer.objects.using(using).expired(now).delete()
    WorkerProcess.objects.using(using).filter(seen_at__lt=now - PROCESSES_KEPT).delete()
    return None
