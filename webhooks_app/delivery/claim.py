"""A claim and its result."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from .lanes import ClaimedRow, Lane
from .outcome import AttemptLog, NextStep


class Claim(NamedTuple):
    """The right to make attempt ``number`` of a delivery until the lease ends.

    A tuple, like all objects with an instance per delivery, because creating a frozen dataclass takes three times as
    long.
    """

    pick: ClaimedRow
    lane: Lane
    event_type: str
    body: bytes

    @property
    def delivery_id(self) -> str:
        return self.pick.delivery_id

    @property
    def number(self) -> int:
        return self.pick.number

    @property
    def key(self) -> tuple[str, int]:
        """The unique key of the claim: a delivery may have several."""
        return self.pick.delivery_id, self.pick.number

    @property
    def is_lost(self) -> bool:
        """Whether the lease of an earlier claim ended without a result. Nothing is sent for a lost claim."""
        return self.pick.lost_since is not None

    @property
    def ids(self) -> dict[str, str | None]:
        """The arguments of the app's signals about an attempt."""
        return {
            "delivery_id": self.pick.delivery_id,
            "webhook_id": self.pick.webhook_id,
            "event_id": self.pick.event_id,
        }


class Finished(NamedTuple):
    """A finished attempt, and the next step of its delivery."""

    claim: Claim
    attempt: AttemptLog
    step: NextStep
    ended_at: datetime

    @property
    def frees_next(self) -> bool:
        """Whether recording the attempt can make a later delivery of its group due."""
        return self.claim.pick.is_ordered and self.step.next_attempt_at is None
