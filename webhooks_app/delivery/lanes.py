"""The lanes of the queue: what is due is read webhook by webhook.

So a long backlog of one is never scanned to find what is due for another: the cost grows with the number of webhooks
that have something pending, not with what they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..models import Delivery, Webhook

Kind = Delivery.Kind

UNVERIFIED_KINDS = (Kind.VERIFICATION, Kind.TEST)
"""What may be sent to a URL that has not passed a handshake: the handshake itself, and tests made by hand."""

MAX_LANES = 400
"""Webhooks to a look. SQLite joins at most 500 SELECTs by UNION ALL; MariaDB ends a recursion at 1,000."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """A webhook that is locked for claiming, and how many deliveries it may be given now."""

    webhook_id: str
    owner_id: Any
    url: str
    encrypted_secret: str
    encrypted_previous_secret: str
    previous_secret_until: datetime | None
    retry_notices: bool
    status: str
    deleted: bool
    quota: int

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(Kind) if self.status == Webhook.Status.ACTIVE else UNVERIFIED_KINDS

    @property
    def stop_reason(self) -> str:
        """Why what waits is cancelled rather than sent or held; "" if it is not."""
        if self.deleted:
            return "webhook_deleted"
        stopped = (Webhook.Status.DISABLED, Webhook.Status.FAILED)
        return f"webhook_{self.status}" if self.status in stopped else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """A due delivery as the database has it."""

    delivery_id: str
    webhook_id: str
    event_id: str | None
    kind: str
    attempt_count: int
    max_attempts: int
    next_attempt_at: datetime
    claimed_at: datetime | None
    expires_at: datetime | None
