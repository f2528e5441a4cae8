"""Folding tallies into roll-ups: each counts once, whatever dies in between, and however many fold at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from ...models import Rollup, Tally
from .counting import Resolution, TalliedWebhook, add_up, read
from .storage import add_to_rollups, changing

TALLIES_AT_A_TIME = 100
"""How many are folded in one transaction: so few that the thread that sends is not kept waiting."""

GIVEN_UP_AT_A_TIME = 500
"""Deliveries given up of which one transaction tells, those of one tally at least."""

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
    has_more: bool = False
    """Whether there were more than are folded at a time."""


def fold(
    using: str, *, limit: int = TALLIES_AT_A_TIME, also: Callable[[Folded], object] = lambda folded: None
) -> Folded:
    """Add the oldest tallies to the roll-ups and delete them, in one transaction; fewer where very much was given up.

    Tallies that another one folded meanwhile are left to it, and none are folded then. ``also`` is called within the
    transaction with what was folded, for whatever else is to follow from it exactly once.
    """
    # What takes long comes before the transaction, and before anybody's lock.
    tallies, folded = _take(list(Tally.objects.using(using).order_by("pk")[: limit + 1]), limit)
    if not tallies:
        return folded
    sums = add_up(folded.webhooks)
    with changing(using):
        deleted, _ = Tally.objects.using(using).filter(pk__in=[tally.pk for tally in tallies]).delete()
        if deleted < len(tallies):
            transaction.set_rollback(True, using=using)
            return Folded(tallies=0)
        add_to_rollups(using, sums)
        also(folded)
    return folded


def _take(tallies: Sequence[Tally], limit: int) -> tuple[list[Tally], Folded]:
    """Return the first tallies, as many as are folded at a time, and what they say."""
    taken: list[Tally] = []
    webhooks: list[TalliedWebhook] = []
    given_up: list[str] = []
    for tally in tallies[:limit]:
        of_webhooks, ids = read(tally)
        if given_up and len(given_up) + len(ids) > GIVEN_UP_AT_A_TIME:
            break
        taken.append(tally)
        webhooks += of_webhooks
        given_up += ids
    has_more = len(taken) < len(tallies)
    return taken, Folded(tallies=len(taken), webhooks=webhooks, given_up=given_up, has_more=has_more)


def forget_old(using: str, now: datetime) -> int:
    """Delete roll-ups that are kept no longer, not more than a little at a time; return how many."""
    deleted = 0
    for resolution, age in KEPT.items():
        rows = Rollup.objects.using(using).filter(resolution=resolution, start__lt=now - age)
        ids = list(rows.order_by("start").values_list("pk", flat=True)[:DELETED_AT_A_TIME])
        if ids:
            deleted += Rollup.objects.using(using).filter(pk__in=ids).delete()[0]
    return deleted
