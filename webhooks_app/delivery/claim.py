"""What the engine knows of one attempt: plain values, no model instances."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .attempt_log import AttemptLog
from .lanes import Lane, Pick
from .outcome import NextStep


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The right to make attempt ``number`` of a delivery until its lease ends."""

    pick: Pick
    lane: Lane
    number: int
    event_type: str
    body: bytes
    is_lost: bool = False
    """The lease ended without a result: the worker that made this attempt was lost, and nothing is to be sent."""

    @property
    def delivery_id(self) -> str:
        return self.pick.delivery_id

    @property
    def ids(self) -> dict[str, str | None]:
        """What the app's signals say about every attempt."""
        return {
            "delivery_id": self.pick.delivery_id,
            "webhook_id": self.pick.webhook_id,
            "event_id": self.pick.event_id,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """An attempt that is over, and what was decided about its delivery."""

    claim: Claim
    attempt: AttemptLog
    step: NextStep
    ended_at: datetime
