"""Folding of tallies into roll-ups. Each tally counts once, even after crashes and with concurrent folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from ...models import Rollup, Tally
from .counting import Resolution, TalliedWebhook, add_up, read
from .storage import add_to_rollups, changing

TALLIES_AT_A_TIME = 100
"""Tallies per transaction: few, so that a sending thread does not wait long."""

GIVEN_UP_AT_A_TIME = 500
"""Given-up deliveries reported in one transaction. A single tally may exceed it."""

KEPT = {
    Resolution.MINUTE: timedelta(days=2),
    Resolution.HOUR: timedelta(days=90),
    Resolution.DAY: timedelta(days=400),
}
DELETED_AT_A_TIME = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Folded:
    """The result of one fold, oldest first."""

    tallies: int
    webhooks: Sequence[TalliedWebhook] = ()
    given_up: Sequence[str] = ()
    """The ids of the given-up deliveries."""
    has_more: bool = False
    """Whether more tallies remain."""


def fold(
    using: str, *, limit: int = TALLIES_AT_A_TIME, also: Callable[[Folded], object] = lambda folded: None
) -> Folded:
    """Add the oldest tallies to the roll-ups and delete them in one transaction. The limit is lower for many failures.

    If a concurrent fold has already taken one of them, nothing is folded. ``also`` is called in the transaction with
    the result, for effects that must occur exactly once.
    """
    # Slow computation happens before the transaction and its lock.
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
    """Return the first tallies within the limits, and their combined content."""
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
    """Delete a limited number of roll-ups at the end of their retention. Return their number."""
    deleted = 0
    for resolution, age in KEPT.items():
        rows = Rollup.objects.using(using).filter(resolution=resolution, start__lt=now - age)
        ids = list(rows.order_by("start").values_list("pk", flat=True)[:DELETED_AT_A_TIME])
        if ids:
            deleted += Rollup.objects.using(using).filter(pk__in=ids).delete()[0]
    return deleted
