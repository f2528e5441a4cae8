"""The functions that record events and their deliveries.

These are the public ones, and those for test events and operational events.
"""

from __future__ import annotations

import logging
import os
from asyncio import get_running_loop
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import InternalError, connections, models, router, transaction
from django.dispatch import Signal
from pydantic import BaseModel

from ..database.sql import concerns_rows, kind_of, sqlstate
from ..event_types import EventType, registry
from ..exceptions import (
    IdempotencyConflictError,
    InvalidBatchError,
    InvalidEventDataError,
    InvalidOwnerError,
    UnknownEventTypeError,
    WebhooksError,
)
from ..models import Delivery, Event, IdempotencyKey, Webhook
from ..models.audit import Action
from ..owners import event_types_for
from ..routing import Reason, RoutedEvent, admits, webhooks_for
from ..signals import deliveries_created, event_emitted
from ..tracing import configured_tracing
from .events import check_key, new_event
from .outbox import Queued, insert_event, insert_events, is_one_statement
from .spans import emission_span

if TYPE_CHECKING:
    from .events import EventData

logger = logging.getLogger("webhooks_app.emission")

M = TypeVar("M", bound=BaseModel)
AnyModel = TypeVar("AnyModel", bound=models.Model)
Happening = TypeVar(
    "Happening", bound="Callable[..., tuple[Any, Mapping[str, Any] | BaseModel] | NewEvent[Any] | None]"
)
"""A function of a signal's arguments that returns an event, or its owner and data, or None for no event."""

IN_FAILED_TRANSACTION = "25P02"
"""PostgreSQL's SQLSTATE for every statement in a transaction after an error."""


@dataclass(frozen=True)
class NewEvent(Generic[M]):
    """An event for ``emit_many`` or ``emit_on``; the fields are the arguments of ``emit``."""

    event_type: EventType[M] | str
    data: M | Mapping[str, Any]
    _: KW_ONLY
    owner: Any
    occurred_at: datetime | None = None
    idempotency_key: str | None = None
    references: Sequence[str] = ()
    ordering_key: str | None = None

    def unsaved(self) -> Event:
        """Return the unsaved event. Raise UnknownEventTypeError, InvalidEventDataError or InvalidOwnerError."""
        event_type = registry.get_emittable(self.event_type)
        if self.idempotency_key is not None:
            check_key(event_type.name, self.idempotency_key)
        return new_event(
            event_type,
            self.data,
            owner=self.owner,
            occurred_at=self.occurred_at,
            references=self.references,
            ordering_key=self.ordering_key,
        )


def emit(
    event_type: EventType[M] | str,
    data: M | Mapping[str, Any],
    *,
    owner: Any,
    occurred_at: datetime | None = None,
    idempotency_key: str | None = None,
    references: Sequence[str] = (),
    ordering_key: str | None = None,
) -> Event:
    """Record an event and one delivery for each subscribed webhook, in the caller's transaction.

    ``event_type`` is a registered event type, or its name; ``data`` is an instance of its data model, or a mapping.
    ``owner`` is the saved account whose webhooks receive the event, in addition to the platform's; None for the
    platform's only. ``occurred_at`` is an aware datetime, by default the current time.

    ``idempotency_key`` identifies the event among those of its owner. If an event with this key exists, it is returned
    and nothing is written. A call waits for the end of other transactions that use the same key. ``references`` are up
    to 8 business identifiers for finding the event. Webhooks with order by key receive events with the same
    ``ordering_key`` one after another.

    Raise UnknownEventTypeError, InvalidEventDataError, InvalidOwnerError, IdempotencyConflictError for a key that was
    used with other arguments, and django.db.transaction.TransactionManagementError in a transaction that an
    earlier error has broken. Nothing is written after an error. No broker is required: workers find the deliveries
    after the commit in any case.
    """
    if idempotency_key is not None:
        return _emit_once(
            NewEvent(
                event_type,
                data,
                owner=owner,
                occurred_at=occurred_at,
                idempotency_key=idempotency_key,
                references=references,
                ordering_key=ordering_key,
            )
        )
    found = registry.get_emittable(event_type)
    event = new_event(
        found, data, owner=owner, occurred_at=occurred_at, references=references, ordering_key=ordering_key
    )
    using = router.db_for_write(Event)
    with _recording([event], using, in_one_statement=is_one_statement(using)):
        _announce(using, (event, insert_event(event, using)))
    return event


def emit_many(new_events: Iterable[NewEvent[Any]]) -> list[Event]:
    """Record all of these events in one transaction, or none; return them in the given order.

    Raise InvalidBatchError with the errors by index, and TransactionManagementError as ``emit``.
    """
    pairs: list[tuple[NewEvent[Any], Event]] = []
    errors: dict[int, WebhooksError] = {}
    for index, new in enumerate(new_events):
        try:
            pairs.append((new, new.unsaved()))
        except (UnknownEventTypeError, InvalidEventDataError, InvalidOwnerError) as error:
            errors[index] = error
    if errors:
        raise InvalidBatchError(errors)
    if not pairs:
        return []
    using = router.db_for_write(Event)
    is_alone = len(pairs) == 1 and pairs[0][0].idempotency_key is None and is_one_statement(using)
    with _recording([event for _, event in pairs], using, in_one_statement=is_alone, savepoint=True):
        events, conflicts = _record(using, pairs)
        if conflicts:
            raise InvalidBatchError(conflicts)
    return events


def _emit_once(new: NewEvent[Any]) -> Event:
    event, using = new.unsaved(), router.db_for_write(Event)
    with _recording([event], using, savepoint=True):
        events, conflicts = _record(using, [(new, event)])
        if conflicts:
            raise conflicts[0]
        return events[0]


def _record(
    using: str, pairs: Sequence[tuple[NewEvent[Any], Event]]
) -> tuple[list[Event], dict[int, IdempotencyConflictError]]:
    """Insert the events with unused idempotency keys; return all events, and the conflicts by index."""
    keys = {
        index: IdempotencyKey.of(event, new.idempotency_key, new.occurred_at)
        for index, (new, event) in enumerate(pairs)
        if new.idempotency_key is not None
    }
    ids = [event.pk for _, event in pairs]
    conflicts: dict[int, IdempotencyConflictError] = {}
    # In a fixed order, so that two batches with the same keys do not deadlock.
    for index, key in sorted(keys.items(), key=lambda item: item[1].pk):
        try:
            ids[index] = _claim_key(key, using)
        except IdempotencyConflictError as error:
            conflicts[index] = error
    if conflicts:
        return [], conflicts
    new_events = {event.pk: event for (_, event), pk in zip(pairs, ids, strict=True) if event.pk == pk}
    earlier = {pk: find_committed(Event, pk, using) for pk in ids if pk not in new_events}
    if None in earlier.values():  # pruned with its key since
        return _record(using, pairs)
    events = new_events.values()
    _announce(using, *zip(events, insert_events(events, using), strict=True))
    return [event for pk in ids if (event := new_events.get(pk) or earlier[pk])], {}


aemit = sync_to_async(emit)
aemit_many = sync_to_async(emit_many)


def _claim_key(claimed: IdempotencyKey, using: str) -> str:
    """Claim an unsaved idempotency key within a transaction; return the id of the event that has it.

    Waits for other transactions that claimed the key. Raise IdempotencyConflictError if that event has other content.
    """
    saved = None
    while saved is None:  # pruning may delete the key between the two statements
        IdempotencyKey.objects.using(using).bulk_create([claimed], ignore_conflicts=True)
        saved = find_committed(IdempotencyKey, claimed.pk, using)
    if differences := claimed.differences(saved):
        raise IdempotencyConflictError(claimed.key, saved.event_id, differences)
    return saved.event_id


def find_committed(model: type[AnyModel], pk: Any, using: str) -> AnyModel | None:
    """Return a row, even if it is newer than the snapshot of a repeatable read; None if it is deleted."""
    rows = model._default_manager.using(using).filter(pk=pk)
    return rows.first() or rows.select_for_update().first()


def new_test_event(webhook: Webhook, event_type: str, data: EventData | None = None) -> Event:
    """Return an unsaved test event for one webhook, by default with the type's example.

    Raise WebhookStateError for a deleted, disabled or paused webhook, and the errors of ``emit``. The platform's
    webhooks also accept operational events.
    """
    webhook.require_testable()
    found = event_types_for(webhook.owner).get(event_type)
    return new_event(found, found.example if data is None else data, owner=webhook.owner, is_test=True)


def queue_test(event: Event, webhook: Webhook) -> Delivery:
    """Save a test event and its only delivery in the caller's transaction."""
    using = router.db_for_write(Event)
    with _recording([event], using):
        event.save(using=using, force_insert=True)
        delivery = Delivery.objects.using(using).queue(event=event, webhook=webhook, kind=Delivery.Kind.TEST)
        webhook.audit(Action.WEBHOOK_TESTED, {"event_type": [None, event.type], "delivery": [None, delivery.pk]})
        _announce(using, (event, Queued(1, [webhook.pk])))
    return delivery


@overload
def emit_on(
    signal: Signal,
    event_type: EventType[Any] | str,
    happening: Happening,
    *,
    sender: Any = None,
    dispatch_uid: Any = None,
) -> Happening: ...


@overload
def emit_on(
    signal: Signal, event_type: EventType[Any] | str, *, sender: Any = None, dispatch_uid: Any = None
) -> Callable[[Happening], Happening]: ...


def emit_on(
    signal: Signal,
    event_type: EventType[Any] | str,
    happening: Any = None,
    *,
    sender: Any = None,
    dispatch_uid: Any = None,
) -> Any:
    """Emit an event of this type whenever a Django signal is sent; usable as a decorator.

    ``happening`` is called with the signal's arguments and returns ``(owner, data)``, or None for no event, or a
    ``NewEvent`` of this type, with all arguments of ``emit``. It is not called for rows loaded from a fixture
    (``raw=True``). The sender of the signal gets the errors of ``emit``, and ValueError for a ``NewEvent`` of another
    type.
    """
    if happening is None:
        return lambda function: emit_on(signal, event_type, function, sender=sender, dispatch_uid=dispatch_uid)

    def emit_happening(sender: Any, **kwargs: Any) -> None:
        kwargs.pop("signal", None)
        if kwargs.get("raw"):
            return
        found = happening(sender, **kwargs)
        if found is None:
            return
        new = found if isinstance(found, NewEvent) else NewEvent(event_type, found[1], owner=found[0])
        wanted, got = (registry.get_emittable(each).name for each in (event_type, new.event_type))
        if got != wanted:
            raise ValueError(f"This function emits {wanted}, and returned an event of type {got}.")
        emit(**vars(new))

    signal.connect(emit_happening, sender=sender, weak=False, dispatch_uid=dispatch_uid)
    return happening


class Operational(NamedTuple):
    """The contents of an operational event, and the webhook that it is about."""

    event_type: EventType[Any]
    webhook_id: str
    data: Mapping[str, Any]


def emit_operational(using: str, operational: Sequence[Operational]) -> int:
    """Record operational events in the caller's transaction, unless no webhook receives them; return their number.

    They are written in bulk, after one query for each type. One about a damaged row is logged and left out, because it
    must prevent neither the others nor the change that it reports.
    """
    names = {each.event_type.name for each in operational}
    subscribers = {name: webhooks_for(RoutedEvent(type=name), using).order_by("pk").readable() for name in names}
    events: list[tuple[Event, Queued]] = []
    deliveries: list[Delivery] = []
    for each in operational:
        try:
            receiving = _receiving(each, subscribers[each.event_type.name])
            if not receiving:
                continue
            event = new_event(each.event_type, each.data, owner=None)
            queued = [Delivery(event=event, webhook=webhook, **webhook.retries_of("event")) for webhook in receiving]
        except Exception as error:
            if not concerns_rows(error):
                raise
            name = each.event_type.name
            logger.error("The event %s about webhook %s is lost: %s.", name, each.webhook_id, kind_of(error))  # noqa: TRY400
            continue
        events.append((event, Queued(len(queued), [delivery.webhook_id for delivery in queued])))
        deliveries += queued
    if events:
        with _recording([event for event, _ in events], using):
            Event.objects.using(using).bulk_create([event for event, _ in events])
            Delivery.objects.using(using).queue_all(deliveries)
            _announce(using, *events)
    return len(events)


def _receiving(operational: Operational, subscribers: Sequence[Webhook]) -> list[Webhook]:
    event_type, webhook_id, data = operational
    routed = RoutedEvent(type=event_type.name, subject_id=webhook_id, data=data)
    return [webhook for webhook in subscribers if admits(webhook, routed) == Reason.SENT]


def _refuse_event_loop() -> None:
    """Raise SynchronousOnlyOperation in asynchronous code, as Django's database does, but with our names."""
    try:
        get_running_loop()
    except RuntimeError:
        return
    if not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):
        raise SynchronousOnlyOperation(
            "emit() writes to the database, which asynchronous code must not do directly. Use `await aemit(…)`, or "
            "`aemit_many` for `emit_many`."
        )


def _recording(
    events: Sequence[Event], using: str, *, in_one_statement: bool = False, savepoint: bool = False
) -> AbstractContextManager[None]:
    """Write unsaved events as ``_writing`` does, within a span if this process traces."""
    writing = _writing(events[0], using, in_one_statement=in_one_statement, savepoint=savepoint)
    tracing = configured_tracing()
    return writing if tracing is None else emission_span(tracing, events, writing)


@contextmanager
def _writing(event: Event, using: str, *, in_one_statement: bool, savepoint: bool) -> Iterator[None]:
    """Write in the caller's transaction, or in a new one; raise TransactionManagementError if the caller's is broken.

    A single statement in autocommit mode needs no transaction, which saves the round trips of BEGIN and COMMIT. With
    ``savepoint``, an error within the block leaves the caller's transaction usable.
    """
    connection = connections[using]
    _refuse_event_loop()
    refusal = (
        f"The event {event.type} cannot be emitted: an earlier error broke this transaction, which can only be rolled "
        "back. Do not catch that error inside of its atomic() block."
    )
    if connection.in_atomic_block and connection.needs_rollback:
        raise transaction.TransactionManagementError(refusal)
    is_alone = in_one_statement and connection.get_autocommit()
    try:
        with nullcontext() if is_alone else transaction.atomic(using=using, savepoint=savepoint):
            yield
    except InternalError as error:
        # PostgreSQL remembers an error that the caller caught; Django does not.
        if sqlstate(error) != IN_FAILED_TRANSACTION:
            raise
        raise transaction.TransactionManagementError(refusal) from error


def _announce(using: str, *events: tuple[Event, Queued]) -> None:
    """Send the signals of events and their deliveries when the current transaction commits."""
    for event, queued in events:
        send = partial(event_emitted.send_robust, Event, event=event, deliveries=queued.number)
        transaction.on_commit(send, using=using)
    if any(queued.number for _, queued in events):
        webhook_ids = [pk for _, queued in events for pk in queued.webhook_ids]
        transaction.on_commit(partial(deliveries_created.send_robust, Delivery, webhook_ids=webhook_ids), using=using)
