"""A claim, and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from .attempt_log import AttemptLog
from .lanes import Lane, Pick
from .outcome import NextStep


class Claim(NamedTuple):
    """The right to make attempt ``number`` of a delivery until its lease ends.

    A tuple, as all that exists once for each delivery on its way: frozen dataclasses cost three times as much.
    """

    pick: Pick
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
        """What tells this claim from every other, of the same delivery too."""
        return self.pick.delivery_id, self.pick.number

    @property
    def is_lost(self) -> bool:
        """The lease ended without a result: the worker that made this attempt was lost, and nothing is to be sent."""
        return self.pick.lost_since is not None

    @property
    def ids(self) -> dict[str, str | None]:
        """What the app's signals say about every attempt."""
        return {
            "delivery_id": self.pick.delivery_id,
            "webhook_id": self.pick.webhook_id,
            "event_id": self.pick.event_id,
        }


class Finished(NamedTuple):
    """An attempt that is over, and what was decided about its delivery."""

    claim: Claim
    attempt: AttemptLog
    step: NextStep
    ended_at: datetime

    @property
    def frees_next(self) -> bool:
        """Later deliveries of its group may be due once it is recorded."""
        return self.claim.pick.is_ordered and self.step.next_attempt_at is None
