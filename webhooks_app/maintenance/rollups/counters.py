"""The counters of a time span as values for charts, lists and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from ...models.rollup import BUCKETS_MS, FAILED, FIRST_ATTEMPT_DELAY, MORE, OUTCOMES, RESPONSE_TIME, SUM

FAMILIES = (FAILED, RESPONSE_TIME, FIRST_ATTEMPT_DELAY)


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
