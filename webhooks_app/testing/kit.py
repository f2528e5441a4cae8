"""The webhooks of a test, assertions about events and deliveries, and values that equal others in expected data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, Self, TypeAlias

from django.db import router
from django.db.models import Min, QuerySet

from ..database.clock import DatabaseClock
from ..database.sql import CompiledValues
from ..delivery.engine import Engine
from ..event_types import EventType, registry
from ..maintenance.filtering import evaluate_filters
from ..models import Delivery, Event, IdempotencyKey, QueueEntry, Webhook
from ..models.hold import Hold, HoldReason, holds_of, is_upcoming
from ..models.own_headers import UNCHANGED, Credentials
from ..models.status import REQUESTED
from ..protocol.ids import order_of_creation
from ..routing.admission import ROUTED, Reason, RoutedEvent, admits
from ..routing.report import Decision, decide
from .receiver import ManualClock, ReceivedRequest, ScriptedReceiver, ScriptedTransport


class Matcher:
    """Equals each value for which the function returns True; its ``repr`` describes these values."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, is_equal: Callable[[Any], object], description: str) -> None:
        self._is_equal = is_equal
        self._description = description

    def __eq__(self, other: object) -> bool:
        return bool(self._is_equal(other))

    def __repr__(self) -> str:
        return f"<{self._description}>"


def instance_of(*types: type) -> Matcher:
    """Return a value that equals all instances of these types; booleans do not count as numbers."""
    names = " or ".join(cls.__name__ for cls in types)
    return Matcher(lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool)), names)


def matching(pattern: str) -> Matcher:
    """Return a value that equals all strings that match a regular expression as a whole."""
    expression = re.compile(pattern)
    return Matcher(lambda value: isinstance(value, str) and expression.fullmatch(value), f"matching {pattern!r}")


def containing(wanted: Mapping[str, Any]) -> Matcher:
    """Return a value that equals all mappings with at least these items."""
    return Matcher(lambda value: isinstance(value, Mapping) and holds(value, wanted), f"containing {dict(wanted)!r}")


def satisfying(is_so: Callable[[Any], object], description: str = "") -> Matcher:
    """Return a value that equals all values for which the function returns a true value."""
    return Matcher(is_so, description or f"satisfying {getattr(is_so, '__name__', is_so)}")


def holds(data: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True if the data has at least these items."""
    return all(name in data and value == data[name] for name, value in wanted.items())


EventName: TypeAlias = EventType[Any] | str

DEFAULT_URL = "https://receiver.example.com/webhooks"

_ANY_OWNER: Any = object()


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

        Raise django.core.exceptions.ValidationError for invalid values.
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

        Raise UnknownEventTypeError.
        """
        events = Event.objects.filter(ROUTED)
        if event_type is not None:
            events = events.filter(type=_name_of(event_type))
        if owner is not _ANY_OWNER:
            events = events.filter(owner=owner)
        return sorted(events.order_by(), key=lambda event: order_of_creation(event.pk, event.created_at))

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
        recorded under the key and to those with at least these references. Raise UnknownEventTypeError.
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
        """Assert that no event, or none of this type and owner, was emitted. Raise UnknownEventTypeError."""
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
        have matchers as values. Raise UnknownEventTypeError.
        """
        _require_some(times, "assert_not_emitted()")
        self.deliver()
        found = [
            delivery
            for delivery in self._deliveries(to).filter(event__type=_name_of(event_type)).order_by()
            if delivery.state == Delivery.State.SUCCEEDED and holds(_event_of(delivery).data, data or {})
        ]
        if len(found) != times:
            wanted = _described(event_type, data)
            raise AssertionError(
                f"{len(found)} of {times} expected deliveries of {wanted} succeeded.{self._results(to)}"
            )
        ids = {delivery.pk for delivery in found}
        return next(request for request in reversed(self.receiver.received) if request.delivery_id in ids)

    def decision(self, event: Event, webhook: Webhook) -> Decision:
        """Return whether an event was sent to a webhook, and why.

        Raise LookupError if the event is addressed to another webhook of the same owner, such as a test event.
        """
        found = [each for each in decide(event, with_platform=True) if each.webhook == webhook]
        if found:
            return found[0]
        reason = admits(webhook, RoutedEvent.of(event))
        if reason is Reason.SENT:
            raise LookupError(f"{event} is addressed to one webhook, which is not {webhook.pk}.")
        return Decision(webhook=webhook, reason=reason)

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

    def hold(self, event: Event, webhook: Webhook) -> Hold | None:
        """Return the reason why the delivery of an event to a webhook is not sent now, or None if it can be.

        Raise LookupError if the event has no delivery to the webhook.
        """
        deliveries = self._deliveries(webhook).select_related("webhook__lane", "queue_entry").filter(event=event)
        delivery = deliveries.order_by("id").last()
        if delivery is None:
            raise LookupError(f"{event} has no delivery to {webhook.pk}.")
        return holds_of([delivery], now=self.clock())[0]

    def assert_held(
        self, event: Event, webhook: Webhook, *, reason: str | None = None, behind: Event | None = None
    ) -> Hold:
        """Assert that the delivery of an event to a webhook is held, for any reason or for this one; return the hold.

        ``reason`` is a value of ``webhooks_app.models.hold.HoldReason``, such as ``ordered``. ``behind`` is the event
        that the webhook must receive first, because of its order. Raise LookupError if there is no delivery.
        """
        hold = self.hold(event, webhook)
        if hold is None or hold.reason == HoldReason.FINAL:
            raise AssertionError(f"The delivery of {event} is not held.{self._results(webhook)}")
        if reason not in (None, hold.reason):
            wanted = HoldReason(reason).value
            raise AssertionError(f"{event} is held by {hold.reason.value}. The expected reason is {wanted}.")
        if behind is not None and not self._deliveries(webhook).filter(pk=hold.blocker, event=behind).exists():
            raise AssertionError(f"{event} is not held behind {behind}.{self._results(webhook)}")
        return hold

    def assert_ordered(self, *events: Event, to: Webhook) -> list[ReceivedRequest]:
        """Make all attempts, and assert that the webhook got these events in this order; return its requests.

        All attempts of an event precede those of the next. Requests of other events may be between them.
        """
        self.deliver()
        ids = [event.pk for event in events]
        received = [each for each in self.receiver.received if each.webhook_id == to.pk and each.event.id in ids]
        found = [event_id for event_id, _ in groupby(each.event.id for each in received)]
        if found != ids:
            listing = "".join(f"\n  {each.event.id}, attempt {each.copy}" for each in received) or " none"
            raise AssertionError(f"The webhook did not get {', '.join(ids)} in this order. It got:{listing}")
        return received

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
        evaluate_filters(router.db_for_write(Delivery), self.clock(), {})
        transport = ScriptedTransport(self.receiver, self.clock)
        Engine(transport=transport, clock=self.clock).run_until_idle(await_retries=False)

    def _next_attempt_at(self) -> datetime | None:
        if not _first_entry(router.db_for_write(QueueEntry)).fetch({}):
            return None
        upcoming = QueueEntry.objects.filter(is_upcoming(), due_at__gt=self.clock())
        next_attempt_at: datetime | None = upcoming.aggregate(at=Min("due_at"))["at"]
        # SQLite compares times as texts, and a whole second has two of them.
        return next_attempt_at and max(next_attempt_at, self.clock() + timedelta.resolution)

    def _deliveries(self, webhook: Webhook | None) -> QuerySet[Delivery]:
        deliveries = Delivery.objects.select_related("event").filter(kind__in=REQUESTED)
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


@lru_cache(maxsize=16)
def _first_entry(using: str) -> CompiledValues:
    """Return the query for any queued delivery. Compiled once, because most often there is none."""
    return CompiledValues(QueueEntry.objects.using(using).order_by().values_list("pk")[:1])


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


def has_marks(event: Event, idempotency_key: str | None, references: Sequence[str]) -> bool:
    """Return True if an event has this key, unless it is None, and at least these references."""
    has_key = idempotency_key is None or _key_of(event) == idempotency_key
    return has_key and (not references or set(references) <= set(_references_of(event)))


def marks_of(event: Event) -> str:
    """Return the marks of an event in parentheses; "" without any."""
    return described(_key_of(event), _references_of(event))


def described(idempotency_key: str | None, references: Sequence[str]) -> str:
    parts = [f"idempotency key {idempotency_key}"] if idempotency_key is not None else []
    parts += [f"references {', '.join(references)}"] if references else []
    return f" ({'; '.join(parts)})" if parts else ""


def _key_of(event: Event) -> str | None:
    found = IdempotencyKey.objects.filter(event=event).first()
    return found.key if found else None


def _references_of(event: Event) -> list[str]:
    return list(event.references.order_by("value").values_list("value", flat=True))
