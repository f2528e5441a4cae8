"""A claim: what a worker asks of the queue's lanes, the claims that it gets, and the result of an attempt.

Pending deliveries are read for each webhook, its lane, separately. Therefore a long backlog of one webhook is never
scanned to find the deliveries of another. The cost grows with the number of webhooks that have pending deliveries, not
with the number of deliveries.

The sharing of requests between fast and slow webhooks is in ``slots.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..encryption import decrypt
from ..exceptions import WebhooksError
from ..models import Delivery, Webhook
from ..models.hold import permitted_kinds
from ..models.limits import LONG_AGO, RateLimit
from ..models.status import is_changing_url
from ..models.webhook import Order
from ..reasons import ReasonText
from ..signatures import Headers
from .outcome import AttemptLog, NextStep
from .signing import LaneKey, Signer, signer_of

Kind = Delivery.Kind

HANDSHAKE = Kind.VERIFICATION.value

DAMAGED_HEADERS = ReasonText("headers_damaged")

FIRST_ENTRIES = 50
"""Number of a webhook's first entries to search for lost claims, which were due first."""

PACED_FOR, PACED_FOR_AT_MOST = timedelta(seconds=0.05), timedelta(seconds=5)
"""How long a webhook at its rate limit is skipped, so that its next deliveries are claimed in batches."""

MAX_LANES = 400
"""Webhooks per look. SQLite limits UNION ALL to 500 SELECTs, MariaDB limits a recursion to 1,000 steps."""

WEBHOOK_FIELDS = (
    "id",
    "owner_id",
    "url",
    "pending_url",
    "signatures",
    "encrypted_headers",
    "pending_headers",
    "retry_notices",
    "accepted_statuses",
    "status",
    "deleted_at",
    "paused_at",
    "max_in_flight",
    "rate_limit",
    "order",
)
"""The fields of a webhook in its lane."""

LANE_NAMES = ("webhook_id", *WEBHOOK_FIELDS[1:])


class ClaimRequest(NamedTuple):
    """A webhook to claim from."""

    webhook_id: str
    own: int
    """The number of its deliveries in flight for this worker."""
    cap: int
    """The maximum in flight over all workers, unless it has a limit of its own."""
    room: int
    """The maximum number of deliveries to claim."""
    is_unknown: bool
    """Whether it has no result yet, so that only one delivery may be in flight over all workers."""
    lost_only: bool = False
    """Whether only lost claims are wanted, regardless of the webhook's limits."""
    due_from: datetime | None = None
    """Lower bound of the due times to read for a webhook with an order, or None."""


class ClaimTerms(NamedTuple):
    """The terms of a claim."""

    worker: int
    now: datetime
    leased_until: datetime
    lost_again_at: datetime | None
    """The time after which an unrecorded lost claim may be picked again, or None to skip lost claims."""


class DueWebhook(NamedTuple):
    """A webhook with pending deliveries, found by a look."""

    webhook_id: str
    due_at: datetime | None
    """The due time of its first delivery that is neither in flight nor held by the webhook's state, or None."""
    owner_id: Any
    """In the database's form."""
    has_lane: bool
    is_fast: bool | None
    """See ``QueueLane.is_fast``."""
    is_active: bool
    """Whether deliveries of all kinds may be sent."""
    is_stopped: bool
    """Whether its pending deliveries are to be cancelled."""


@dataclass(slots=True)
class Lane:
    """A webhook during a claim: ``WEBHOOK_FIELDS``, and the values of its lane."""

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
    """The webhook's own limit, see ``most``."""
    rate_limit: float | None
    order: str = Order.NONE
    pending_url: str = ""
    pending_headers: Sequence[Sequence[str]] = ()
    next_slot_at: datetime | None = None
    worker: int = 0
    """The number of the claiming worker."""
    claimed_at: datetime = LONG_AGO
    """The time of the claim."""
    keys: Sequence[LaneKey] = field(default=(), repr=False)
    """Current keys first."""
    _signer: Signer | None = field(default=None, repr=False)

    @property
    def is_active(self) -> bool:
        """Whether deliveries of all kinds may be sent."""
        return self.status == Webhook.Status.ACTIVE and self.deleted_at is None and self.paused_at is None

    @property
    def is_changing_url(self) -> bool:
        """Whether a handshake goes to the pending URL, before all other deliveries and during a pause."""
        return self.deleted_at is None and is_changing_url(self)

    def for_handshake(self) -> Lane:
        """Return the lane with the URL and the headers of a handshake, which are those of a pending URL if any."""
        if not self.is_changing_url:
            return self
        return replace(self, url=self.pending_url, encrypted_headers=self.pending_headers)

    def kinds(self, now: datetime) -> tuple[Kind, ...]:
        """Return the kinds of deliveries that can be sent now."""
        withheld = Kind.RETRY_NOTICE if self.withholds_notices(now) else None
        return tuple(kind for kind in permitted_kinds(self) if kind != withheld)

    def withholds_notices(self, now: datetime) -> bool:
        return self.limit is not None and self.limit.withholds_notices(now)

    def most(self, ask: ClaimRequest) -> int:
        """Return the maximum number of claims over all workers."""
        return 1 if ask.is_unknown else self.max_in_flight or ask.cap

    def room(self, ask: ClaimRequest, in_flight: int, now: datetime) -> int:
        """Return the number of deliveries to claim, at most ``ask.room``."""
        if not (self.paused_at is None or self.is_changing_url):
            return 0
        allowance = ask.room if self.limit is None else self.limit.allowance(now)
        return max(0, min(ask.room, self.most(ask) - in_flight, allowance))

    def paced_until(self, now: datetime, number: int) -> datetime | None:
        """Return until when to skip the webhook, of which ``number`` were claimed, or None unless at its rate limit.

        The limit then permits several deliveries. It can change, so the time is not long.
        """
        limit = self.limit
        if limit is None or (limit.allowance(now) and (number or not limit.withholds_notices(now))):
            return None
        return now + min(max(limit.next_slot_at - now, PACED_FOR), PACED_FOR_AT_MOST)

    @property
    def limit(self) -> RateLimit | None:
        return None if self.rate_limit is None else RateLimit.of(self.rate_limit, self.next_slot_at)

    @property
    def own_headers(self) -> Headers:
        """The custom headers of the webhook. Raise SecretUnreadableError if one cannot be decrypted."""
        try:
            pairs = [(str(name), str(token)) for name, token in self.encrypted_headers]
        except (TypeError, ValueError):
            raise WebhooksError(DAMAGED_HEADERS) from None
        return tuple((name, decrypt(token)) for name, token in pairs)

    @property
    def signer(self) -> Signer:
        """The signer of the requests. Raise SecretUnreadableError or SchemeUnavailableError without valid keys."""
        if self._signer is None:
            self._signer = signer_of(self.webhook_id, self.signatures, self.keys)
        return self._signer


class Claim(NamedTuple):
    """The right to make attempt ``number`` of a delivery until the lease ends.

    A tuple, like all objects with an instance per delivery, because creating a frozen dataclass takes three times as
    long.
    """

    delivery_id: str
    webhook_id: str
    event_id: str | None
    kind: str
    number: int
    """The number of the new attempt, or of the lost one."""
    max_attempts: int
    lost_since: datetime | None
    """The time of the lost claim, for which nothing is sent, or None for a new claim."""
    expires_at: datetime | None
    retry_policy: str
    """The name of the policy, or empty for the specification's."""
    is_ordered: bool
    """Whether later deliveries of its group may wait for its end."""
    lane: Lane
    event_type: str
    """Empty if the event is missing."""
    body: bytes
    traceparent: str | None = None
    """The span that emitted the event, if it was traced."""
    claimed_in: str | None = None
    """The traceparent of the claim's own span, if this worker traces."""

    @property
    def key(self) -> tuple[str, int]:
        """The unique key of the claim: a delivery may have several."""
        return self.delivery_id, self.number

    @property
    def is_lost(self) -> bool:
        """Whether the lease of an earlier claim ended without a result."""
        return self.lost_since is not None

    @property
    def ids(self) -> dict[str, str | None]:
        """The arguments of the app's signals about an attempt."""
        return {"delivery_id": self.delivery_id, "webhook_id": self.webhook_id, "event_id": self.event_id}


class Claimed(NamedTuple):
    """The result of a claim: the locked lanes, and the claims, also expired ones and those without their event."""

    lanes: Sequence[Lane]
    claims: list[Claim]
    parked: int = 0
    """The number of due deliveries found behind an earlier one of their group."""


class Finished(NamedTuple):
    """A finished attempt, and the next step of its delivery."""

    claim: Claim
    attempt: AttemptLog
    step: NextStep
    ended_at: datetime

    @property
    def frees_next(self) -> bool:
        """Whether recording the attempt can make a later delivery of its group due."""
        return self.claim.is_ordered and self.step.next_attempt_at is None
