"""Folding tallies into roll-ups: each counts once, whatever dies in between, and however many fold at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..models import ChoreState, Rollup, Tally
from ..models.rollup import COUNTERS
from ..models.sql import add_to_counters, writing
from .counting import Resolution, TalliedWebhook, add_up, read

LOCK = "fold"
"""The chore whose row is the lock."""

TALLIES_AT_A_TIME = 100
"""How many are folded in one transaction: so few that the thread that sends is not kept waiting."""

KEPT = {
    Resolution.MINUTE: timedelta(days=2),
    Resolution.HOUR: timedelta(days=90),
    Resolution.DAY: timedelta(days=400),
}
DELETED_AT_A_TIME = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Folded:
    """What one fold took in, oldest first."""

    tallies: int
    webhooks: Sequence[TalliedWebhook] = ()
    given_up: Sequence[str] = ()
    """The ids of the deliveries that were given up."""


def fold(
    using: str, *, limit: int = TALLIES_AT_A_TIME, also: Callable[[Folded], object] = lambda folded: None
) -> Folded:
    """Add the oldest tallies to the roll-ups and delete them, in one transaction.

    Those that fold at once wait for each other; what is not committed yet is left to the next call. ``also`` is called
    within the transaction with what was folded, for whatever else is to follow from it exactly once.
    """
    ChoreState.objects.using(using).ensure([LOCK])
    with writing(using, Tally):
        ChoreState.objects.using(using).lock(LOCK)
        # Read without a lock, which on MariaDB would keep workers from adding to them.
        tallies = list(Tally.objects.using(using).order_by("pk")[:limit])
        if not tallies:
            return Folded(tallies=0)
        entries = [read(tally) for tally in tallies]
        folded = Folded(
            tallies=len(tallies),
            webhooks=[webhook for webhooks, _ in entries for webhook in webhooks],
            given_up=[delivery_id for _, given_up in entries for delivery_id in given_up],
        )
        rows = [(*key, *counters) for key, counters in sorted(add_up(folded.webhooks).items())]
        add_to_counters(using, Rollup, ("webhook_id", "resolution", "start"), COUNTERS, rows)
        also(folded)
        Tally.objects.using(using).filter(pk__in=[tally.pk for tally in tallies]).delete()
    return folded


def forget_old(using: str, now: datetime) -> int:
    """Delete roll-ups that are kept no longer, not more than a little at a time; return how many."""
    deleted = 0
    for resolution, age in KEPT.items():
        rows = Rollup.objects.using(using).filter(resolution=resolution, start__lt=now - age)
        ids = list(rows.order_by("start").values_list("pk", flat=True)[:DELETED_AT_A_TIME])
        if ids:
            deleted += Rollup.objects.using(using).filter(pk__in=ids).delete()[0]
    return deleted
