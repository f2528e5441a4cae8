"""The retry schedule as a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

RETRY_DELAYS_SECONDS = (1, 5, 30)
"""Interface, Limits: at most 3 retries, after 1, 5 and 30 seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrySchedule:
    """The waits between the end of a failed attempt and the start of the next."""

    delays: tuple[timedelta, ...]

    def __post_init__(self) -> None:
        if any(delay < timedelta(0) for delay in self.delays):
            raise ValueError(f"A retry cannot come before its failure; {self.delays} holds a negative delay.")

    @classmethod
    def of_seconds(cls, seconds: Iterable[float] = RETRY_DELAYS_SECONDS) -> RetrySchedule:
        return cls(delays=tuple(timedelta(seconds=delay) for delay in seconds))

    @property
    def max_attempts(self) -> int:
        return 1 + len(self.delays)

    def next_attempt_at(self, attempt_number: int, failed_at: datetime) -> datetime | None:
        """Return when to try again after attempt ``attempt_number`` (from 1) failed, or None to give up."""
        if attempt_number < 1:
            raise ValueError(f"Attempts are counted from 1; there is no attempt {attempt_number}.")
        if attempt_number >= self.max_attempts:
            return None
        return failed_at + self.delays[attempt_number - 1]
