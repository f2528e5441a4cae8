"""The receiver of a test, the transport that leads to it, and their clock."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..conf import known_signatures, transport_options
from ..delivery.sending import Sending
from ..encryption import decrypt
from ..event_types import INTERNAL_NAMES, RETRY_NOTICE
from ..receiver import ReceivedEvent, challenge_answer, verify
from ..transport import Exchange, Request, Response
from ..transport.memory import Answer, MemoryTransport


class ManualClock:
    """A clock that stands still until it is moved forwards."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._slept_seconds = 0.0

    def __call__(self) -> datetime:
        return self._now

    def latest(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._slept_seconds

    def sleep(self, seconds: float) -> None:
        """Let the engine's pause pass at once. The time of day does not change."""
        self._slept_seconds += seconds

    def advance(self, seconds: float) -> None:
        self.move_to(self._now + timedelta(seconds=seconds))

    def move_to(self, moment: datetime) -> None:
        self._now = max(self._now, moment)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedRequest:
    """A request to the receiver, with a verified signature."""

    at: datetime
    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    event: ReceivedEvent
    webhook_id: str
    delivery_id: str
    copy: int
    """1 for the first request of an event to the webhook, 2 for its first retry."""


class ScriptedReceiver:
    """A receiver that sends scripted answers and records the requests.

    ``answers`` are statuses, responses or transport errors. The first request of each event to each webhook gets
    the first answer, its retry the second, and so on; all further requests, and retry notices, get the last.
    Handshakes pass while ``passes_handshakes`` is True.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.answers: tuple[Answer, ...] = (200,)
        self.passes_handshakes = True
        self.received: list[ReceivedRequest] = []
        self._clock = clock
        self._copies: Counter[tuple[str, str]] = Counter()

    def events(self, event_type: str | None = None) -> list[ReceivedRequest]:
        """Return the requests of one type or of all, without handshakes and retry notices."""
        wanted = {event_type} if event_type else {request.event.type for request in self.received} - INTERNAL_NAMES
        return [request for request in self.received if request.event.type in wanted]

    def respond(self, request: Request, secret: str | Sequence[str]) -> Answer:
        """Verify a request and return its answer. Raise WebhookVerificationError for a wrong signature.

        ``secret`` is the secret of the webhook, together with the keys of its other signature schemes.
        """
        headers = dict(request.headers)
        schemes = tuple(known_signatures().values())
        event = verify(request.body, headers, secret, now=self._clock(), schemes=schemes)
        claim = request.context.claim
        subject = claim.webhook_id, event.id or ""
        self._copies[subject] += 1
        received = ReceivedRequest(
            at=self._clock(),
            url=request.url,
            headers=headers,
            body=request.body,
            event=event,
            webhook_id=claim.webhook_id,
            delivery_id=claim.delivery_id,
            copy=self._copies[subject],
        )
        self.received.append(received)
        return self._handshake_answer(event) if event.is_verification else self._event_answer(received)

    def _handshake_answer(self, event: ReceivedEvent) -> Answer:
        answer = challenge_answer(event) if self.passes_handshakes else {}
        return Response(status=200, body=json.dumps(answer).encode())

    def _event_answer(self, received: ReceivedRequest) -> Answer:
        last = len(self.answers) - 1
        return self.answers[last if received.event.type == RETRY_NOTICE.name else min(received.copy - 1, last)]


class ScriptedTransport(MemoryTransport):
    """Passes requests to the receiver, which answers immediately. Pauses end at once."""

    def __init__(self, receiver: ScriptedReceiver, clock: ManualClock) -> None:
        super().__init__(transport_options(), answer=self._ask, clock=lambda: 0.0)
        self._receiver = receiver
        self._sleep = clock.sleep

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        exchanges = super().wait(0)
        if not exchanges:
            self._sleep(timeout_seconds)
        return exchanges

    def _ask(self, request: Request) -> Answer:
        return self._receiver.respond(request, _verification_keys(request.context))


def _verification_keys(sending: Sending) -> list[str]:
    """Return the keys with which the webhook's receiver verifies signatures: those stored with it at the claim."""
    schemes = {scheme.key_scheme: scheme for scheme in known_signatures().values()}
    return [
        schemes[key.scheme].verification_key(decrypt(key.token))
        for key in sending.claim.lane.keys
        if key.scheme in schemes and (key.valid_until is None or key.valid_until > sending.started_at)
    ]
