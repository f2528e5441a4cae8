"""Reading of roll-ups for a window of time, including tallies that are not yet folded.

Numbers are therefore exact as soon as their batch is committed, even if nothing is ever folded, as in tests.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self

from django.db import router
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from ...models import Rollup, Tally, Webhook
from ...models.rollup import (
    BUCKETS_MS,
    EVERY_WEBHOOK,
    FAILED,
    FIRST_ATTEMPT_DELAY,
    FIRST_WEBHOOK,
    MORE,
    OUTCOMES,
    RESPONSE_TIME,
    SUM,
)
from .folding import EVER, Resolution, Sums, TalliedWebhook, accounts_of, add, counting, read, start_of

FAMILIES = (FAILED, RESPONSE_TIME, FIRST_ATTEMPT_DELAY)

TAIL = 1000
"""Maximum number of tallies read in addition to the roll-ups: a few seconds of many workers."""

TOP = 10
DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """Numbers of measurements by duration: one for each inclusive upper bound, and one for larger values."""

    buckets: Sequence[int]
    sum_ms: int
    bounds: Sequence[int] = BUCKETS_MS

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def percentile(self, share: float) -> float | None:
        """Return the duration in ms of this percentile (0 to 1), interpolated linearly inside its bucket.

        The last bucket counts as its lower bound. Return None without measurements.
        """
        count = self.count
        if not count:
            return None
        left = share * count
        lower = 0
        for upper, number in zip(self.bounds, self.buckets, strict=False):
            if number and left <= number:
                return lower + (upper - lower) * max(left, 0) / number
            left -= number
            lower = upper
        return float(lower)


@dataclass(frozen=True, slots=True)
class Counters:
    """Numbers by counter name. A missing counter is 0, and unknown ones are ignored."""

    numbers: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        if name in self.numbers:
            return self.numbers[name]
        if name in OUTCOMES or name.startswith(FAMILIES):
            return 0
        raise KeyError(name)  # A template then tries an attribute.

    @property
    def succeeded(self) -> int:
        return self["succeeded_at_once"] + self["succeeded_later"]

    @property
    def given_up(self) -> int:
        return self["given_up"]

    @property
    def finished(self) -> int:
        """The number of deliveries with an outcome."""
        return sum(self[outcome] for outcome in OUTCOMES)

    @property
    def success_rate(self) -> float | None:
        """The share of successful deliveries among those with an outcome, or None without any."""
        finished = self.finished
        return self.succeeded / finished if finished else None

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed attempts by result, without zeros. Results unknown to this version are included."""
        numbers = self.numbers.items()
        return {name.removeprefix(FAILED): number for name, number in numbers if name.startswith(FAILED) and number}

    @property
    def attempts(self) -> int:
        return self.succeeded + sum(self.failures.values())

    @property
    def response_times(self) -> Histogram:
        """The response times of answered attempts."""
        return self._histogram(RESPONSE_TIME)

    @property
    def first_attempt_delays(self) -> Histogram:
        """The times from queueing to the first attempt, including a pause or a handshake."""
        return self._histogram(FIRST_ATTEMPT_DELAY)

    def _histogram(self, name: str) -> Histogram:
        """Return the histogram with the current bounds, and those of older measurements."""
        ends = (counter.removeprefix(name) for counter in self.numbers if counter.startswith(name))
        bounds = sorted({*BUCKETS_MS, *(int(end) for end in ends if end.isdecimal())})
        buckets = [self[f"{name}{end}"] for end in (*bounds, MORE)]
        return Histogram(buckets=buckets, sum_ms=self[f"{name}{SUM}"], bounds=bounds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The counters of one step of a series, beginning at ``start``."""

    start: datetime
    counters: Counters


@dataclass(frozen=True, kw_only=True)
class Series:
    """Steps of equal length, oldest first. The last is the current one."""

    points: Sequence[Point]
    step_seconds: int
    as_of: datetime | None = None
    """The time up to which the series is complete if many tallies are not yet folded, otherwise None."""

    @cached_property
    def total(self) -> Counters:
        sums: dict[str, int] = {}
        for point in self.points:
            for name, number in point.counters.numbers.items():
                sums[name] = sums.get(name, 0) + number
        return Counters(sums)


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


def series(window: Window, ids: Collection[str] = (EVERY_WEBHOOK,), *, now: datetime | None = None) -> Series:
    """Return the combined counters of these webhooks or accounts (``id_of_account``) by step; by default of all.

    There is a row for each of them and each step. Hundreds of webhooks have too many.
    """
    starts = window.starts(now or timezone.now())
    sums, tail = _consistently(lambda: _sums_by_start(window.resolution, starts[0], ids))
    for entry in tail.of(ids):
        start = start_of(window.resolution, entry.recorded_at)
        add(sums.setdefault(start, {}), entry.counters)
    return _series(window, starts, sums, tail)


def total(window: Window, ids: Collection[str] = (EVERY_WEBHOOK,), *, now: datetime | None = None) -> Counters:
    """Return the counters for the whole window."""
    return series(window, ids, now=now).total


def each(window: Window, webhook_ids: Iterable[str], *, now: datetime | None = None) -> dict[str, Series]:
    """Return the series of each of these webhooks, with one query."""
    starts = window.starts(now or timezone.now())
    wanted = list(webhook_ids)
    sums, tail = _consistently(lambda: _counts_by_webhook(_rows(window.resolution, starts[0], wanted)))
    for entry in tail.of(wanted):
        start = start_of(window.resolution, entry.recorded_at)
        add(sums.setdefault(entry.webhook_id, {}).setdefault(start, {}), entry.counters)
    return {webhook_id: _series(window, starts, sums.get(webhook_id, {}), tail) for webhook_id in wanted}


def worst_webhooks(
    window: Window, webhook_ids: Collection[str] | None = None, *, top: int = TOP, now: datetime | None = None
) -> list[str]:
    """Return the ids of the webhooks with the most given-up deliveries, in descending order."""
    failing = Rollup.objects.filter(spans(window, now or timezone.now()), given_up__gt=0)
    if webhook_ids is not None:
        failing = failing.filter(webhook_id__in=list(webhook_ids))
    by_webhook = failing.order_by().values_list("webhook_id")
    return [webhook_id for webhook_id, _ in by_webhook.annotate(sum=Sum("given_up")).order_by("-sum")[:top]]


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
    sums, tail = _consistently(lambda: _sums_by_start(Resolution.EVER, EVER, [EVERY_WEBHOOK]))
    counters = sums.get(EVER, {})
    for entry in tail.entries:
        add(counters, entry.counters)
    return Counters(counters)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tail:
    """The tallies that are not yet folded."""

    entries: Sequence[TalliedWebhook]
    as_of: datetime | None

    def of(self, ids: Collection[str]) -> list[TalliedWebhook]:
        """Return what a fold adds to the roll-ups with these ids."""
        wanted = set(ids)
        has_accounts = any(EVERY_WEBHOOK < each < FIRST_WEBHOOK for each in wanted)
        webhook_ids = {entry.webhook_id for entry in self.entries} if has_accounts else ()
        accounts = accounts_of(Webhook.objects.filter(pk__in=webhook_ids)) if webhook_ids else {}
        return [entry for entry in self.entries if wanted & counting(entry.webhook_id, accounts)]


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


def _rows(resolution: str, since: datetime, ids: Collection[str]) -> QuerySet[Rollup]:
    rows = Rollup.objects.filter(webhook_id__in=list(ids), resolution=resolution, start__gte=since)
    return rows.order_by()


def _sums_by_start(resolution: str, since: datetime, ids: Collection[str]) -> dict[datetime, Sums]:
    sums: dict[datetime, Sums] = {}
    for start, counts in _rows(resolution, since, ids).values_list("start", "counts"):
        add(sums.setdefault(start, {}), counts)
    return sums


def _counts_by_webhook(rows: QuerySet[Rollup]) -> dict[str, dict[datetime, Sums]]:
    by_webhook: dict[str, dict[datetime, Sums]] = {}
    for webhook_id, start, counts in rows.values_list("webhook_id", "start", "counts"):
        by_webhook.setdefault(webhook_id, {})[start] = counts
    return by_webhook


def _series(window: Window, starts: Sequence[datetime], sums: dict[datetime, Sums], tail: _Tail) -> Series:
    points = [Point(start=start, counters=Counters(sums.get(start, {}))) for start in starts]
    return Series(points=points, step_seconds=int(window.step.total_seconds()), as_of=tail.as_of)
