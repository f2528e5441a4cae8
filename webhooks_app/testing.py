"""What the tests of a project that sends webhooks need: no network, no waiting, no broker."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import router
from django.db.models import Min

from .delivery.clock import DatabaseClock
from .delivery.engine import Engine
from .egress import transport_options
from .event_types import INTERNAL_EVENT_TYPES, RETRY_NOTICE
from .models import Delivery, Event, Webhook
from .receiver import ReceivedEvent, challenge_answer, verify
from .signals import deliveries_created
from .transport import Exchange, Request, Response
from .transport.memory import Answer, MemoryTransport

DEFAULT_URL = "https://receiver.example.com/webhooks"

_ANYBODY: Any = object()


class ManualClock:
    """A clock that stands still until it is moved; never backwards."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def __call__(self) -> datetime:
        return self._now

    def latest(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return time.monotonic()

    def advance(self, seconds: float) -> None:
        self.move_to(self._now + timedelta(seconds=seconds))

    def move_to(self, moment: datetime) -> None:
        self._now = max(self._now, moment)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedRequest:
    """One request as the receiver got it, its signature verified."""

    at: datetime
    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    event: ReceivedEvent
    copy: int
    """1 for the first attempt of an event, 2 for its first retry."""


class ScriptedReceiver:
    """Answers as it is told, and remembers what it got.

    ``answers`` are statuses, responses or transport errors: the first request of each event gets the first of them,
    its retry the second, and so on; the last is for all that follow, and for retry notices. Handshakes pass while
    ``passes_handshakes`` is on.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.answers: tuple[Answer, ...] = (200,)
        self.passes_handshakes = True
        self.received: list[ReceivedRequest] = []
        self._clock = clock
        self._copies: Counter[str] = Counter()

    def events(self, event_type: str | None = None) -> list[ReceivedRequest]:
        """Return what came, of one type or of all, without handshakes and retry notices."""
        internal = {internal.name for internal in INTERNAL_EVENT_TYPES}
        wanted = {event_type} if event_type else {request.event.type for request in self.received} - internal
        return [request for request in self.received if request.event.type in wanted]

    def respond(self, request: Request, secret: str) -> Answer:
        """Verify a request and return the answer to it. Raises WebhookVerificationError for a wrong signature."""
        headers = dict(request.headers)
        event = verify(request.body, headers, secret, now=self._clock())
        self._copies[event.id or ""] += 1
        received = ReceivedRequest(
            at=self._clock(),
            url=request.url,
            headers=headers,
            body=request.body,
            event=event,
            copy=self._copies[event.id or ""],
        )
        self.received.append(received)
        return self._handshake_answer(event) if event.is_verification else self._event_answer(received)

    def _handshake_answer(self, event: ReceivedEvent) -> Answer:
        answer = challenge_answer(event) if self.passes_handshakes else {}
        return Response(status=200, body=json.dumps(answer).encode())

    def _event_answer(self, received: ReceivedRequest) -> Answer:
        last = len(self.answers) - 1
        return self.answers[last if received.event.type == RETRY_NOTICE.name else min(received.copy - 1, last)]


class Webhooks:
    """The webhooks of one test, inside a ``with`` block: no worker is woken, and nothing leaves the process.

    Everything else is real: rows, subscriptions, signatures, retries. Works inside the transaction that a test runs in.
    """

    def __init__(self) -> None:
        self.clock = ManualClock(_database_now())
        self.receiver = ScriptedReceiver(self.clock)

    def __enter__(self) -> Self:
        # Eager tasks, which many test settings have, would send for real.
        self._muted, deliveries_created.receivers = deliveries_created.receivers, []
        return self

    def __exit__(self, *exception: object) -> None:
        deliveries_created.receivers = self._muted

    def register(self, owner: Any, *event_types: str, url: str = DEFAULT_URL, **fields: Any) -> Webhook:
        """Create a webhook that is active at once, without a handshake.

        Raises django.core.exceptions.ValidationError for what could not be registered.
        """
        webhook = Webhook(owner=owner, url=url, event_types=list(event_types), **fields)
        webhook.full_clean()
        webhook.status = Webhook.Status.ACTIVE
        webhook.save(force_insert=True)
        return webhook

    def emitted(self, event_type: str | None = None, *, owner: Any = _ANYBODY) -> list[Event]:
        """Return the events of the test, oldest first, of one type and owner or of all; test events are none."""
        events = Event.objects.filter(is_test=False).exclude(type__in=[event.name for event in INTERNAL_EVENT_TYPES])
        if event_type is not None:
            events = events.filter(type=event_type)
        if owner is not _ANYBODY:
            events = events.filter(owner=owner)
        return list(events.order_by("id"))

    def assert_emitted(
        self, event_type: str, data: Mapping[str, Any] | None = None, *, owner: Any = _ANYBODY, times: int = 1
    ) -> Event:
        """Assert that ``times`` events of this type hold at least this data; return the last of them."""
        if times < 1:
            raise ValueError(f"times is {times}; for none at all there is assert_not_emitted().")
        found = [event for event in self.emitted(event_type, owner=owner) if _holds(event.data, data or {})]
        if len(found) != times:
            wanted = event_type if data is None else f"{event_type} with {dict(data)}"
            raise AssertionError(f"{len(found)} of {times} expected events {wanted} were emitted.{self._listing()}")
        return found[-1]

    def assert_not_emitted(self, event_type: str | None = None, *, owner: Any = _ANYBODY) -> None:
        """Assert that no event, or none of this type and owner, was emitted."""
        if self.emitted(event_type, owner=owner):
            raise AssertionError(f"{event_type or 'An event'} was emitted.{self._listing()}")

    def deliver(self, *, retries: bool = True) -> list[ReceivedRequest]:
        """Make every attempt that is due, and every retry as if its time had come; return what the receiver got.

        With ``retries`` off, only what is due by ``clock``.
        """
        before = len(self.receiver.received)
        self.clock.move_to(_database_now())
        self._run_engine()
        while retries and (next_attempt_at := self._next_attempt_at()):
            self.clock.move_to(next_attempt_at)
            self._run_engine()
        return self.receiver.received[before:]

    def _run_engine(self) -> None:
        Engine(transport=_ScriptedTransport(self.receiver), clock=self.clock).run_until_idle(await_retries=False)

    def _next_attempt_at(self) -> datetime | None:
        later = Delivery.objects.waiting().filter(next_attempt_at__gt=self.clock(), webhook__paused_at=None)
        next_attempt_at: datetime | None = later.aggregate(at=Min("next_attempt_at"))["at"]
        return next_attempt_at

    def _listing(self) -> str:
        lines = [f"\n  {event.type} of {event.owner}: {json.dumps(event.data)}" for event in self.emitted()]
        return f" There are:{''.join(lines)}" if lines else " There are none at all."


def _database_now() -> datetime:
    """Return a time that is not before what the database has called now so far; SQLite rounds to milliseconds."""
    return DatabaseClock(router.db_for_write(Delivery))() + timedelta(milliseconds=1)


def _holds(data: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in data and data[name] == value for name, value in wanted.items())


class _ScriptedTransport(MemoryTransport):
    """Lets the receiver answer, at once."""

    def __init__(self, receiver: ScriptedReceiver) -> None:
        super().__init__(transport_options(), answer=self._ask, clock=lambda: 0.0)
        self._receiver = receiver

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        return super().wait(0)

    def _ask(self, request: Request) -> Answer:
        webhook = Webhook.objects.get(pk=request.context.claim.pick.webhook_id)
        return self._receiver.respond(request, webhook.secret)
