"""The lanes of the queue: what is due is read webhook by webhook.

So a long backlog of one is never scanned to find what is due for another: the cost grows with the number of webhooks
that have something pending, not with what they have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ..encryption import decrypt
from ..models import Delivery, Webhook
from .pace import LONG_AGO, Pace

Kind = Delivery.Kind

UNVERIFIED_KINDS = (Kind.VERIFICATION, Kind.TEST)
"""What may be sent to a URL that has not passed a handshake: the handshake itself, and tests made by hand."""

MAX_LANES = 400
"""Webhooks to a look. SQLite joins at most 500 SELECTs by UNION ALL; MariaDB ends a recursion at 1,000."""


LANE_FIELDS = (
    "id",
    "owner_id",
    "url",
    "encrypted_secret",
    "encrypted_previous_secret",
    "previous_secret_until",
    "retry_notices",
    "status",
    "deleted_at",
    "paused_at",
    "max_in_flight",
    "rate_limit",
    "next_slot_at",
)
"""The fields of a webhook that its lane is made of."""


@dataclass(slots=True)
class Lane:
    """A webhook that is locked for claiming: ``LANE_FIELDS``, and how many deliveries it may be given now."""

    webhook_id: str
    owner_id: Any
    url: str
    encrypted_secret: str
    encrypted_previous_secret: str
    previous_secret_until: datetime | None
    retry_notices: bool
    status: str
    deleted_at: datetime | None
    paused_at: datetime | None
    max_in_flight: int | None
    """Deliveries that all workers together may have claimed."""
    rate_limit: float | None
    next_slot_at: datetime | None
    quota: int = 0
    """Deliveries that this claim may take, if ``max_in_flight`` leaves room for them."""
    claimed_at: datetime = LONG_AGO
    """When its deliveries were claimed."""
    withholds_notices: bool = False
    """Whether its rate limit has too little room for more than what its notices announce."""
    _secret: str | None = field(default=None, repr=False)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if self.status != Webhook.Status.ACTIVE:
            return UNVERIFIED_KINDS
        return tuple(kind for kind in Kind if kind != Kind.RETRY_NOTICE) if self.withholds_notices else tuple(Kind)

    @property
    def stop_reason(self) -> str:
        """Why what waits is cancelled rather than sent or held; "" if it is not."""
        if self.deleted_at is not None:
            return "webhook_deleted"
        stopped = (Webhook.Status.DISABLED, Webhook.Status.FAILED)
        return f"webhook_{self.status}" if self.status in stopped else ""

    @property
    def pace(self) -> Pace | None:
        if self.rate_limit is None:
            return None
        return Pace(per_second=self.rate_limit, next_slot_at=self.next_slot_at or LONG_AGO)

    @property
    def secret(self) -> str:
        """The text that keys the signatures. Raises SecretUnreadableError."""
        if self._secret is None:
            self._secret = decrypt(self.encrypted_secret)
        return self._secret


class Pick(NamedTuple):
    """A due delivery, just claimed, as the database has it. A tuple, because a row becomes one at no cost."""

    delivery_id: str
    webhook_id: str
    event_id: str | None
    kind: str
    number: int
    """Of the attempt that may now be made, or of the one that was lost."""
    max_attempts: int
    lost_since: datetime | None
    """When the claim that was lost was made; None for a new claim."""
    expires_at: datetime | None
