"""The clock of a test."""

from __future__ import annotations

import time
from datetime import datetime, timedelta


class ManualClock:
    """A clock that stands still until it is moved forwards."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def __call__(self) -> datetime:
        return self._now

    def latest(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return time.monotonic()

    def advance(self, seconds: float) -> None:
        self.move_to(self._now + timedelta(seconds=seconds))

    def move_to(self, moment: datetime) -> None:
        self._now = max(self._now, moment)
