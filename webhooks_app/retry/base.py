"""The contract of a retry policy."""

from __future__ import annotations

import abc
import random
from datetime import datetime, timedelta
from typing import ClassVar

MAX_ATTEMPTS = 100
"""Maximum number of attempts of every policy."""


class BaseRetryPolicy(abc.ABC):
    """A retry policy. Instances hold no state.

    A delivery keeps the policy's name and number of attempts as they were when it was queued.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    max_attempts: int
    jitter: ClassVar[float] = 0.0
    """Largest random extension of a delay, as a fraction of it."""
    max_retry_after: ClassVar[timedelta] = timedelta(0)
    """Largest delay that a receiver can request by Retry-After; zero ignores the header."""

    @abc.abstractmethod
    def delay(self, number: int) -> timedelta:
        """Return the shortest delay between the end of failed attempt ``number`` (from 1) and the next attempt."""

    def next_attempt_at(
        self, number: int, failed_at: datetime, *, retry_after: timedelta | None = None
    ) -> datetime | None:
        """Return the time of the attempt after failed attempt ``number`` (from 1); None after the last.

        ``retry_after`` is the delay requested by the receiver. It never shortens a delay.
        """
        if number < 1:
            raise ValueError(f"Attempts are counted from 1; there is no attempt {number}.")
        if number >= self.max_attempts:
            return None
        delay = self.delay(number)
        if self.jitter:
            delay += delay * self.jitter * random.random()  # noqa: S311 - spreads load, protects nothing
        if retry_after is not None:
            delay = max(delay, min(retry_after, self.max_retry_after))
        return failed_at + delay

    @property
    def delays(self) -> tuple[timedelta, ...]:
        """The shortest delay before each retry."""
        return tuple(self.delay(number) for number in range(1, self.max_attempts))

    @property
    def span(self) -> timedelta:
        """Shortest time between the first failure and giving up a delivery."""
        return sum(self.delays, timedelta(0))

    def problem(self) -> str:
        """Return the reason why the policy is unusable; "" if it is usable."""
        if not 1 <= self.max_attempts <= MAX_ATTEMPTS:
            return f"makes {self.max_attempts} attempts; 1 to {MAX_ATTEMPTS} are possible"
        if any(not timedelta(0) <= delay <= timedelta(days=30) for delay in self.delays):
            return "has a delay that is negative or longer than 30 days"
        return ""
