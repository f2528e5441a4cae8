"""What the counters of a time span say, as values for charts, lists and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from ..models.rollup import BUCKETS_MS, COUNTERS, FAILURES, histogram

_NAMES = frozenset(COUNTERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """How many took how long: a number for each of ``BUCKETS_MS``, and one for what took longer."""

    buckets: Sequence[int]
    sum_ms: int

    @property
    def count(self) -> int:
        return sum(self.buckets)

    @property
    def mean_ms(self) -> float | None:
        return self.sum_ms / self.count if self.count else None

    def percentile(self, share: float) -> float | None:
        """Return the milliseconds within which this share (0 to 1) lies, estimated evenly inside its bucket.

        What is in the last bucket is told as its lower bound; None where nothing was measured.
        """
        count = self.count
        if not count:
            return None
        left = share * count
        lower = 0
        for upper, number in zip(BUCKETS_MS, self.buckets, strict=False):
            if number and left <= number:
                return lower + (upper - lower) * max(left, 0) / number
            left -= number
            lower = upper
        return float(lower)


@dataclass(frozen=True, slots=True)
class Counters:
    """What ``COUNTERS`` names; a name that is missing has counted nothing."""

    numbers: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        if name not in _NAMES:  # Templates then look for an attribute.
            raise KeyError(name)
        return self.numbers.get(name, 0)

    @property
    def succeeded(self) -> int:
        return self["succeeded_at_once"] + self["succeeded_later"]

    @property
    def given_up(self) -> int:
        return self["given_up"]

    @property
    def finished(self) -> int:
        """Deliveries that were decided."""
        return self.succeeded + self.given_up

    @property
    def success_rate(self) -> float | None:
        """The share of decided deliveries that succeeded; None where none was decided."""
        succeeded = self.succeeded
        finished = succeeded + self.given_up
        return succeeded / finished if finished else None

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed attempts by their result, those that there were."""
        return {failure: number for failure in FAILURES if (number := self[f"failed_{failure}"])}

    @property
    def attempts(self) -> int:
        return self.succeeded + sum(self.failures.values())

    @property
    def response_times(self) -> Histogram:
        """Of the attempts that were answered."""
        return self._histogram("ms")

    @property
    def first_attempt_delays(self) -> Histogram:
        """From when a delivery was queued until its first attempt; a pause and a handshake count as waiting."""
        return self._histogram("wait")

    def _histogram(self, name: str) -> Histogram:
        *buckets, sum_ms = (self[counter] for counter in histogram(name))
        return Histogram(buckets=buckets, sum_ms=sum_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The counters from ``start`` for one step of a series."""

    start: datetime
    counters: Counters


@dataclass(frozen=True, kw_only=True)
class Series:
    """Equally long steps, oldest first; the last is under way."""

    points: Sequence[Point]
    step_seconds: int
    as_of: datetime | None = None
    """Up to when it is complete, where more waits to be counted than is read at once; None where nothing is missing."""

    @cached_property
    def total(self) -> Counters:
        sums: dict[str, int] = {}
        for point in self.points:
            for name, number in point.counters.numbers.items():
                sums[name] = sums.get(name, 0) + number
        return Counters(sums)
