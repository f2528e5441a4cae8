"""A webhook's rate limit over all workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from .limits import MAX_RATE, MIN_RATE

BURST = timedelta(seconds=1)
"""The rate that an idle webhook accumulates: enough for batches, and 1/60 of a minute's deliveries."""


LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit:
    """A limit of ``per_second`` deliveries in evenly spaced slots. The next free one is at ``next_slot_at``."""

    per_second: float
    next_slot_at: datetime

    def allowance(self, now: datetime) -> int:
        """Return the number of deliveries that may start now."""
        waited = (now - self._first_slot(now)).total_seconds()
        return 0 if waited < 0 else int(waited * self._rate) + 1

    def after(self, number: int, now: datetime) -> RateLimit:
        """Return the limit after the start of ``number`` deliveries."""
        taken = timedelta(seconds=number / self._rate)
        return RateLimit(per_second=self.per_second, next_slot_at=self._first_slot(now) + taken)

    @property
    def _rate(self) -> float:
        """The rate, forced into the range of ``Webhook.rate_limit``: rows inserted by other means can be outside."""
        return min(MAX_RATE, max(MIN_RATE, self.per_second))

    def _first_slot(self, now: datetime) -> datetime:
        return max(now - BURST, self.next_slot_at)
