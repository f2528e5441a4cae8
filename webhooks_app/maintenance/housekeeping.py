"""The jobs that follow from what is counted: it is folded, judged, and deleted once it is kept no longer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ..database.dialects import dialect_of
from ..models import WorkerProcess
from .health.monitor import take_in, watch
from .rollups.folding import TALLIES_AT_A_TIME, fold, forget_old

SINGLE_WRITER_AT_A_TIME = 50
"""Fewer tallies where a fold excludes every other writer."""

AGAIN_SECONDS = 0.1
PROCESSES_KEPT = timedelta(days=1)


def fold_tallies(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Fold a batch of tallies, and move the health of their webhooks with it.

    More of them follow shortly after, so that whoever sends has its turn in between.
    """
    limit = SINGLE_WRITER_AT_A_TIME if dialect_of(using).has_single_writer else TALLIES_AT_A_TIME
    folded = fold(using, limit=limit, also=lambda folded: take_in(using, folded))
    return AGAIN_SECONDS if folded.has_more else None


def judge_health(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Warn of the webhooks that have been failing for long, and disable those that have for too long."""
    watch(using, now)
    return None


def forget(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Delete roll-ups that are kept no longer, and the processes that have long ended."""
    forget_old(using, now)
    WorkerProcess.objects.using(using).filter(seen_at__lt=now - PROCESSES_KEPT).delete()
    return None
