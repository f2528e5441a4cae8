"""Reading of roll-ups for a window of time, including tallies that are not yet folded.

Numbers are therefore exact as soon as their batch is committed, even if nothing is ever folded, as in tests.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import router
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from ...models import Rollup, Tally
from ...models.rollup import EVERY_WEBHOOK
from .counters import Counters, Point, Series
from .folding import EVER, Resolution, Sums, TalliedWebhook, add, names_in, read, start_of, sums_by

TAIL = 1000
"""Maximum number of tallies read in addition to the roll-ups: a few seconds of many workers."""

ALL = ("",)
"""The prefix of all counters."""

TOP = 10
DAY = timedelta(days=1)


class Window(enum.Enum):
    """The range and the resolution of a chart."""

    HOUR = "hour", Resolution.MINUTE, timedelta(minutes=1), 60
    DAY = "day", Resolution.HOUR, timedelta(hours=1), 24
    WEEK = "week", Resolution.HOUR, timedelta(hours=1), 168
    MONTH = "month", Resolution.DAY, timedelta(days=1), 30

    def __new__(cls, value: str, resolution: str, step: timedelta, steps: int) -> Self:
        window = object.__new__(cls)
        window._value_ = value
        window.resolution = resolution
        window.step = step
        window.steps = steps
        return window

    resolution: str
    step: timedelta
    steps: int

    def starts(self, now: datetime) -> list[datetime]:
        """Return the starts of the steps, oldest first."""
        last = start_of(self.resolution, now)
        return [last - (self.steps - 1 - number) * self.step for number in range(self.steps)]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeatRow:
    """The outcomes of one webhook's deliveries by step."""

    webhook_id: str
    series: Series


def series(
    window: Window,
    webhook_ids: Collection[str] | None = None,
    *,
    families: tuple[str, ...] = ALL,
    now: datetime | None = None,
) -> Series:
    """Return the combined counters of these webhooks, or of all webhooks, by step.

    ``families`` are the prefixes of the required counters. They limit the data read, because hundreds of webhooks have
    one row each per step.
    """
    starts = window.starts(now or timezone.now())
    wanted = None if webhook_ids is None else list(webhook_ids)
    scope = [EVERY_WEBHOOK] if wanted is None else wanted
    sums, tail = _consistently(lambda: _sums_by_start(window.resolution, starts[0], scope, families))
    for entry in tail.of(wanted):
        start = start_of(window.resolution, entry.recorded_at)
        add(sums.setdefault(start, {}), entry.counters)
    return _series(window, starts, sums, tail)


def total(window: Window, webhook_ids: Collection[str] | None = None, *, now: datetime | None = None) -> Counters:
    """Return the counters for the whole window."""
    return series(window, webhook_ids, now=now).total


def each(window: Window, webhook_ids: Iterable[str], *, now: datetime | None = None) -> dict[str, Series]:
    """Return the series of each of these webhooks, with one query."""
    starts = window.starts(now or timezone.now())
    wanted = list(webhook_ids)
    sums, tail = _consistently(lambda: _counts_by_webhook(_rows(window.resolution, starts[0], wanted)))
    for entry in tail.of(wanted):
        start = start_of(window.resolution, entry.recorded_at)
        add(sums.setdefault(entry.webhook_id, {}).setdefault(start, {}), entry.counters)
    return {webhook_id: _series(window, starts, sums.get(webhook_id, {}), tail) for webhook_id in wanted}


def heat_map(
    window: Window, webhook_ids: Collection[str] | None = None, *, top: int = TOP, now: datetime | None = None
) -> list[HeatRow]:
    """Return the outcomes of the webhooks with the most given-up deliveries, in descending order."""
    now = now or timezone.now()
    failing = Rollup.objects.filter(spans(window, now), given_up__gt=0)
    if webhook_ids is not None:
        failing = failing.filter(webhook_id__in=list(webhook_ids))
    by_webhook = failing.exclude(webhook_id=EVERY_WEBHOOK).order_by().values_list("webhook_id")
    worst = [webhook_id for webhook_id, _ in by_webhook.annotate(sum=Sum("given_up")).order_by("-sum")[:top]]
    found = each(window, worst, now=now)
    return [HeatRow(webhook_id=webhook_id, series=series) for webhook_id, series in found.items()]


def spans(window: Window, now: datetime) -> Q:
    """Return the condition for the window's roll-ups. Whole days replace their hours, to read fewer rows."""
    since = window.starts(now)[0]
    if window.resolution != Resolution.HOUR:
        return Q(resolution=window.resolution, start__gte=since)
    midnight = start_of(Resolution.DAY, since + DAY - timedelta.resolution)
    hours = Q(resolution=Resolution.HOUR, start__gte=since, start__lt=midnight)
    return hours | Q(resolution=Resolution.DAY, start__gte=midnight)


def ever() -> Counters:
    """Return the counters over all time. They never decrease."""
    sums, tail = _consistently(lambda: _sums_by_start(Resolution.EVER, EVER, [EVERY_WEBHOOK], ALL))
    counters = sums.get(EVER, {})
    for entry in tail.entries:
        add(counters, entry.counters)
    return Counters(counters)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tail:
    """The tallies that are not yet folded."""

    entries: Sequence[TalliedWebhook]
    as_of: datetime | None

    def of(self, webhook_ids: Collection[str] | None) -> list[TalliedWebhook]:
        wanted = None if webhook_ids is None else set(webhook_ids)
        return [entry for entry in self.entries if wanted is None or entry.webhook_id in wanted]


def _consistently(read_rollups: Callable[[], Any]) -> tuple[Any, _Tail]:
    """Return the roll-ups and the tail from a time without a fold, so that each tally counts once."""
    tallies = Tally.objects.using(router.db_for_write(Tally)).order_by("pk")
    while True:
        found = list(tallies[: TAIL + 1])
        sums = read_rollups()
        # Folds start with the oldest tally.
        if not found or tallies.filter(pk=found[0].pk).exists():
            break
    entries = [entry for tally in found[:TAIL] for entry in read(tally)[0]]
    return sums, _Tail(entries=entries, as_of=found[TAIL - 1].recorded_at if len(found) > TAIL else None)


def _rows(resolution: str, since: datetime, webhook_ids: Sequence[str]) -> QuerySet[Rollup]:
    rows = Rollup.objects.filter(webhook_id__in=webhook_ids, resolution=resolution, start__gte=since)
    return rows.order_by()


def _sums_by_start(
    resolution: str, since: datetime, webhook_ids: Sequence[str], families: tuple[str, ...]
) -> dict[datetime, Sums]:
    rows = _rows(resolution, since, webhook_ids)
    if len(webhook_ids) == 1:  # There is one row for each start.
        return dict(rows.values_list("start", "counts"))
    names = names_in(_rows(resolution, since, [EVERY_WEBHOOK])) if webhook_ids else []
    return sums_by("start", rows, [name for name in names if name.startswith(families)])


def _counts_by_webhook(rows: QuerySet[Rollup]) -> dict[str, dict[datetime, Sums]]:
    by_webhook: dict[str, dict[datetime, Sums]] = {}
    for webhook_id, start, counts in rows.values_list("webhook_id", "start", "counts"):
        by_webhook.setdefault(webhook_id, {})[start] = counts
    return by_webhook


def _series(window: Window, starts: Sequence[datetime], sums: dict[datetime, Sums], tail: _Tail) -> Series:
    points = [Point(start=start, counters=Counters(sums.get(start, {}))) for start in starts]
    return Series(points=points, step_seconds=int(window.step.total_seconds()), as_of=tail.as_of)
