"""The clock of a test."""

from __future__ import annotations

from datetime import datetime, timedelta


class ManualClock:
    """A clock that stands still until it is moved forwards."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._slept_seconds = 0.0

    def __call__(self) -> datetime:
        return self._now

    def latest(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._slept_seconds

    def sleep(self, seconds: float) -> None:
        """Let the engine's pause pass at once. The time of day does not change."""
        self._slept_seconds += seconds

    def advance(self, seconds: float) -> None:
        self.move_to(self._now + timedelta(seconds=seconds))

    def move_to(self, moment: datetime) -> None:
        self._now = max(self._now, moment)
