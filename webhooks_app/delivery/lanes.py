"""The lanes of the queue: pending deliveries are read webhook by webhook.

So a long backlog of one is never scanned to find another's: the cost grows with the number of webhooks that have
something pending, not with the number of deliveries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ..encryption import decrypt
from ..models import Delivery
from ..models.hold import standing_reason
from ..models.rate_limit import LONG_AGO, RateLimit
from ..signatures import Headers
from .signing import LaneKey, Signer

Kind = Delivery.Kind

FIRST_ENTRIES = 50
"""Entries of a webhook among which lost claims are looked for; they come first, as they were due first."""

MAX_LANES = 400
"""Webhooks to a look. SQLite joins at most 500 SELECTs by UNION ALL; MariaDB ends a recursion at 1,000."""

WEBHOOK_FIELDS = (
    "id",
    "owner_id",
    "url",
    "signatures",
    "encrypted_headers",
    "retry_notices",
    "accepted_statuses",
    "status",
    "deleted_at",
    "paused_at",
    "max_in_flight",
    "rate_limit",
)
"""The fields of a webhook that its lane is made of."""

LANE_NAMES = ("webhook_id", *WEBHOOK_FIELDS[1:])


class Ask(NamedTuple):
    """A webhook to claim from."""

    webhook_id: str
    own: int
    """The number of its deliveries that this worker has in flight."""
    cap: int
    """The number that all workers together may have in flight, where it has no limit of its own."""
    room: int
    """Deliveries to claim at most."""
    is_unknown: bool
    """It has had no result yet, so all workers together may have one in flight."""
    lost_only: bool = False
    """Only lost claims are wanted, whatever the limits of the webhook."""


class Terms(NamedTuple):
    """The terms of a claim."""

    worker: int
    now: datetime
    leased_until: datetime
    lost_again_at: datetime | None
    """When a lost claim that is not recorded by then may be picked again; None leaves lost claims alone."""


class DueWebhook(NamedTuple):
    """A webhook with pending deliveries, as a look finds it."""

    webhook_id: str
    due_at: datetime | None
    """Of its first delivery that is not in flight; None where a pause holds all of them."""
    owner_id: Any
    """As the database has it."""
    has_lane: bool
    is_fast: bool | None
    """See ``QueueLane.is_fast``."""
    is_stopped: bool
    """Its pending deliveries are cancelled rather than sent or held."""


@dataclass(slots=True)
class Lane:
    """A webhook that is claimed from: ``WEBHOOK_FIELDS``, then the facts of its lane's row."""

    webhook_id: str
    owner_id: Any
    url: str
    signatures: Sequence[str]
    encrypted_headers: Sequence[Sequence[str]]
    retry_notices: bool
    accepted_statuses: str
    status: str
    deleted_at: datetime | None
    paused_at: datetime | None
    max_in_flight: int | None
    """Deliveries that all workers together may have claimed."""
    rate_limit: float | None
    next_slot_at: datetime | None = None
    worker: int = 0
    """The number of the worker that claims from it."""
    claimed_at: datetime = LONG_AGO
    """When its deliveries were claimed."""
    keys: Sequence[LaneKey] = field(default=(), repr=False)
    """The current keys first."""
    _signer: Signer | None = field(default=None, repr=False)

    def kinds(self, now: datetime) -> tuple[Kind, ...]:
        """Return the kinds of deliveries that may be sent."""
        withheld = Kind.RETRY_NOTICE if self.withholds_notices(now) else None
        return tuple(kind for kind in Kind if kind != withheld and not standing_reason(kind, self))

    def withholds_notices(self, now: datetime) -> bool:
        """Return True if the rate limit has too little room for more than what its notices announce."""
        return self.limit is not None and self.limit.allowance(now) < 2

    def room(self, share: int, in_flight: int, now: datetime) -> int:
        """Return how many deliveries may be claimed, at most ``share``."""
        if self.paused_at is not None or self.max_in_flight is None:
            return 0
        allowance = share if self.limit is None else self.limit.allowance(now)
        return max(0, min(share, self.max_in_flight - in_flight, allowance))

    @property
    def limit(self) -> RateLimit | None:
        if self.rate_limit is None:
            return None
        return RateLimit(per_second=self.rate_limit, next_slot_at=self.next_slot_at or LONG_AGO)

    @property
    def own_headers(self) -> Headers:
        """The headers that the owner has added. Raises SecretUnreadableError."""
        return tuple((name, decrypt(token)) for name, token in self.encrypted_headers)

    @property
    def signer(self) -> Signer:
        """The signer of its requests. Raises SecretUnreadableError and SchemeUnavailableError."""
        if self._signer is None:
            self._signer = Signer(self.webhook_id, self.signatures, self.keys)
        return self._signer


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
    retry_policy: str = ""
    """The name of the policy; empty for the specification's."""


class Picked(NamedTuple):
    """The result of a claim: the lanes that were locked, and the picks with their events by id: type and body."""

    lanes: Sequence[Lane]
    picks: Sequence[Pick]
    events: dict[str, tuple[str, bytes]]
