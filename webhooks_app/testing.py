"""Test kit for projects that send webhooks, without a network, waiting or a broker."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self, TypeAlias

from django.db import router
from django.db.models import Min, QuerySet

from .choices import known_signatures
from .database.clock import DatabaseClock
from .delivery.engine import Engine
from .event_types import RETRY_NOTICE, EventType, registry
from .marks import described, has_marks, marks_of
from .matchers import containing, holds, instance_of, matching, satisfying
from .models import Delivery, Event, QueueEntry, Webhook
from .models.hold import Hold, HoldReason, holds_of, is_upcoming
from .models.own_headers import UNCHANGED, Credentials
from .outbound import transport_options
from .receiver import ReceivedEvent, challenge_answer, verify
from .routing.admission import INTERNAL_NAMES, ROUTED, Reason
from .routing.report import Decision, decide
from .transport import Exchange, Request, Response
from .transport.memory import Answer, MemoryTransport

__all__ = [
    "ManualClock",
    "ReceivedRequest",
    "ScriptedReceiver",
    "Webhooks",
    "WebhooksMixin",
    "containing",
    "instance_of",
    "matching",
    "satisfying",
]

EventName: TypeAlias = EventType[Any] | str

DEFAULT_URL = "https://receiver.example.com/webhooks"

_ANY_OWNER: Any = object()


class ManualClock:
    """A clock that stands still until it is moved forwards."""

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
    """A request to the receiver, with a verified signature."""

    at: datetime
    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    event: ReceivedEvent
    copy: int
    """1 for the first attempt of an event, 2 for its first retry."""


class ScriptedReceiver:
    """A receiver that sends scripted answers and records the requests.

    ``answers`` are statuses, responses or transport errors. The first request of each event gets the first answer, its
    retry the second, and so on; all further requests, and retry notices, get the last. Handshakes pass while
    ``passes_handshakes`` is True.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.answers: tuple[Answer, ...] = (200,)
        self.passes_handshakes = True
        self.received: list[ReceivedRequest] = []
        self._clock = clock
        self._copies: Counter[str] = Counter()

    def events(self, event_type: str | None = None) -> list[ReceivedRequest]:
        """Return the requests of one type or of all, without handshakes and retry notices."""
        wanted = {event_type} if event_type else {request.event.type for request in self.received} - INTERNAL_NAMES
        return [request for request in self.received if request.event.type in wanted]

    def respond(self, request: Request, secret: str | Sequence[str]) -> Answer:
        """Verify a request and return its answer. Raises WebhookVerificationError for a wrong signature.

        ``secret`` is the secret of the webhook, together with the keys of its other signature schemes.
        """
        headers = dict(request.headers)
        schemes = tuple(known_signatures().values())
        event = verify(request.body, headers, secret, now=self._clock(), schemes=schemes)
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
    """The webhooks of one test, inside a ``with`` block and without network access.

    Everything else is real: rows, subscriptions, signatures, retries. It works inside the transaction of a test.
    """

    def __init__(self) -> None:
        self.clock = ManualClock(_database_now())
        self.receiver = ScriptedReceiver(self.clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Do nothing: the rows end with the test."""

    def register(
        self,
        owner: Any,
        *event_types: str,
        url: str = DEFAULT_URL,
        headers: Mapping[str, str] | None = None,
        basic_auth: Credentials = UNCHANGED,
        **fields: Any,
    ) -> Webhook:
        """Create a webhook that is active without a handshake. Arguments are those of ``register_webhook``.

        Raises django.core.exceptions.ValidationError for invalid values.
        """
        webhook = Webhook(owner=owner, url=url, event_types=list(event_types), **fields)
        webhook.full_clean()
        webhook.set_headers(headers, basic_auth)
        webhook.create_missing_keys()
        webhook.status = Webhook.Status.ACTIVE
        webhook.save(force_insert=True)
        return webhook

    def emitted(self, event_type: EventName | None = None, *, owner: Any = _ANY_OWNER) -> list[Event]:
        """Return the events so far, oldest first, of one type and owner or of all. Test events are excluded.

        Raises UnknownEventTypeError.
        """
        events = Event.objects.filter(ROUTED)
        if event_type is not None:
            events = events.filter(type=_name_of(event_type))
        if owner is not _ANY_OWNER:
            events = events.filter(owner=owner)
        return list(events.order_by("id"))

    def assert_emitted(
        self,
        event_type: EventName,
        data: Mapping[str, Any] | None = None,
        *,
        owner: Any = _ANY_OWNER,
        idempotency_key: str | None = None,
        references: Sequence[str] = (),
        times: int = 1,
    ) -> Event:
        """Assert that ``times`` events of this type contain at least this data; return the last of them.

        ``data`` may have matchers as values. ``idempotency_key`` and ``references`` limit the events to the one
        recorded under the key and to those with at least these references. Raises UnknownEventTypeError.
        """
        _require_some(times, "assert_not_emitted()")
        found = [
            event
            for event in self.emitted(event_type, owner=owner)
            if has_marks(event, idempotency_key, references) and holds(event.data, data or {})
        ]
        if len(found) != times:
            wanted = _described(event_type, data) + described(idempotency_key, references)
            raise AssertionError(f"{len(found)} of {times} expected events {wanted} were emitted.{self._listing()}")
        return found[-1]

    def assert_not_emitted(self, event_type: EventName | None = None, *, owner: Any = _ANY_OWNER) -> None:
        """Assert that no event, or none of this type and owner, was emitted. Raises UnknownEventTypeError."""
        if self.emitted(event_type, owner=owner):
            found = "An event" if event_type is None else _name_of(event_type)
            raise AssertionError(f"{found} was emitted.{self._listing()}")

    def assert_delivered(
        self,
        event_type: EventName,
        data: Mapping[str, Any] | None = None,
        *,
        to: Webhook | None = None,
        times: int = 1,
    ) -> ReceivedRequest:
        """Make all attempts, and assert that the receiver confirmed ``times`` deliveries; return its last request.

        Only deliveries of events of this type with at least this data count, to one webhook or to all. ``data`` may
        have matchers as values. Raises UnknownEventTypeError.
        """
        _require_some(times, "assert_not_emitted()")
        self.deliver()
        found = [
            delivery
            for delivery in self._deliveries(to).filter(event__type=_name_of(event_type)).order_by("id")
            if delivery.state == Delivery.State.SUCCEEDED and holds(_event_of(delivery).data, data or {})
        ]
        if len(found) != times:
            wanted = _described(event_type, data)
            raise AssertionError(
                f"{len(found)} of {times} expected deliveries of {wanted} succeeded.{self._results(to)}"
            )
        return next(request for request in reversed(self.receiver.received) if request.event.id == found[-1].event_id)

    def decision(self, event: Event, webhook: Webhook) -> Decision:
        """Return whether an event was sent to a webhook, and why. Raises LookupError for a webhook of another owner."""
        found = [each for each in decide(event, with_platform=True) if each.webhook == webhook]
        if not found:
            raise LookupError(f"{webhook.pk} never gets events of {event.owner}.")
        return found[0]

    def assert_not_sent(self, event: Event, webhook: Webhook, *, reason: str | None = None) -> Decision:
        """Assert that an event was not sent to a webhook, for any reason or for this one; return the decision.

        ``reason`` is a value of ``webhooks_app.routing.Reason``, such as ``filtered``.
        """
        decision = self.decision(event, webhook)
        if decision.is_sent or reason not in (None, decision.reason):
            found = f"sent to {webhook.pk}" if decision.is_sent else f"not sent to {webhook.pk} ({decision.reason})"
            wanted = "" if reason is None else f" The expected reason is {Reason(reason).value}."
            raise AssertionError(f"{event} was {found}: {decision.explanation}{wanted}")
        return decision

    def deliver(self, *, retries: bool = True) -> list[ReceivedRequest]:
        """Make all attempts, moving the clock to each retry; return the requests to the receiver.

        Without ``retries``, make only the attempts that are due by ``clock``.
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
        upcoming = QueueEntry.objects.filter(is_upcoming(), due_at__gt=self.clock())
        next_attempt_at: datetime | None = upcoming.aggregate(at=Min("due_at"))["at"]
        return next_attempt_at

    def _deliveries(self, webhook: Webhook | None) -> QuerySet[Delivery]:
        deliveries = Delivery.objects.select_related("event").filter(kind__in=(Delivery.Kind.EVENT, Delivery.Kind.TEST))
        return deliveries if webhook is None else deliveries.filter(webhook=webhook)

    def _results(self, webhook: Webhook | None) -> str:
        deliveries = list(self._deliveries(webhook).select_related("webhook__lane", "queue_entry").order_by("id"))
        lines = [
            f"\n  {each.event_type} to {each.webhook.url}: {each.state}, {each.last_result or 'not sent'}{_wait(hold)}"
            for each, hold in zip(deliveries, holds_of(deliveries, now=self.clock()), strict=True)
        ]
        return f" There are:{''.join(lines)}" if lines else " There are no deliveries. Register a webhook for the type."

    def _listing(self) -> str:
        lines = [
            f"\n  {event.type} of {event.owner}: {json.dumps(event.data)}{marks_of(event)}" for event in self.emitted()
        ]
        return f" There are:{''.join(lines)}" if lines else " There are no events."


def _database_now() -> datetime:
    """Return a time not earlier than any that the database has returned so far; SQLite rounds to milliseconds."""
    return DatabaseClock(router.db_for_write(Delivery))() + timedelta(milliseconds=1)


def _name_of(event_type: EventName) -> str:
    """Return the name of a registered event type. A misspelt name raises UnknownEventTypeError."""
    return registry.get(event_type.name if isinstance(event_type, EventType) else event_type).name


def _wait(hold: Hold | None) -> str:
    """Return the reason why a pending delivery waits, with a comma; "" if it does not."""
    if hold is None or hold.reason == HoldReason.FINAL:
        return ""
    return f", {hold.reason.label}{f' ({hold.blocker})' if hold.blocker else ''}"


def _event_of(delivery: Delivery) -> Event:
    assert delivery.event is not None
    return delivery.event


def _described(event_type: EventName, data: Mapping[str, Any] | None) -> str:
    name = _name_of(event_type)
    return name if data is None else f"{name} with {dict(data)}"


def _require_some(times: int, instead: str) -> None:
    if times < 1:
        raise ValueError(f"times is {times}; it must be at least 1. Use {instead} to expect none.")


class WebhooksMixin:
    """For test cases of ``unittest`` and Django: each test has ``self.webhooks``."""

    webhooks: Webhooks

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        self.webhooks = Webhooks()


class _ScriptedTransport(MemoryTransport):
    """Passes requests to the receiver, which answers immediately."""

    def __init__(self, receiver: ScriptedReceiver) -> None:
        super().__init__(transport_options(), answer=self._ask, clock=lambda: 0.0)
        self._receiver = receiver

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        return super().wait(0)

    def _ask(self, request: Request) -> Answer:
        webhook = Webhook.objects.get(pk=request.context.claim.pick.webhook_id)
        return self._receiver.respond(request, webhook.verification_keys)
