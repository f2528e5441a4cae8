"""A webhook's rate limit: how many deliveries may start now, over all workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BURST = timedelta(seconds=1)
"""How much of the rate an idle webhook saves up: enough to claim in batches, and 1/60 of a minute's deliveries."""


LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit:
    """Deliveries at ``per_second`` evenly spaced slots, of which the next free one is at ``next_slot_at``."""

    per_second: float
    next_slot_at: datetime

    def allowance(self, now: datetime) -> int:
        """Return how many deliveries may start now."""
        waited = (now - self._first_slot(now)).total_seconds()
        return 0 if waited < 0 else int(waited * self.per_second) + 1

    def after(self, number: int, now: datetime) -> RateLimit:
        """Return the pace once so many have started."""
        taken = timedelta(seconds=number / self.per_second)
        return RateLimit(per_second=self.per_second, next_slot_at=self._first_slot(now) + taken)

    def _first_slot(self, now: datetime) -> datetime:
        return max(now - BURST, self.next_slot_at)
