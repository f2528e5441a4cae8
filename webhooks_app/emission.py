"""From a happening in the host to rows that will be delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import InternalError, connections, router, transaction
from django.dispatch import Signal
from django.utils import timezone

from .conf import settings
from .envelope import encode
from .event_types import EventType, registry
from .exceptions import InvalidEventDataError, InvalidOwnerError
from .ids import new_id
from .models import Delivery, Event, Webhook
from .models.audit import Action
from .models.outbox import insert_event, is_one_statement
from .models.sql import UtcNow
from .signals import deliveries_created, event_emitted

if TYPE_CHECKING:
    from pydantic import BaseModel

    EventData = Mapping[str, Any] | BaseModel
    Happening = Callable[..., tuple[Any, EventData] | None]

IN_FAILED_TRANSACTION = "25P02"
"""PostgreSQL's SQLSTATE for whatever is asked of a transaction after an error."""


def emit(event_type: str, data: EventData, *, owner: Any, occurred_at: datetime | None = None) -> Event:
    """Record an event and one delivery for each webhook that listens, in the caller's transaction.

    ``data`` is a mapping, or an instance of the event type's data model. ``owner`` is the saved account whose
    webhooks get the event beside the platform's; None for the platform's alone. ``occurred_at`` is an aware
    datetime, now by default.

    Raises UnknownEventTypeError, InvalidEventDataError or InvalidOwnerError, and Django's TransactionManagementError
    in a transaction that an earlier error has broken; nothing is written then. Whether a broker is there makes no
    difference: what is committed will be sent.
    """
    event = _new_event(registry.get_emittable(event_type), data, owner=owner, occurred_at=occurred_at)
    using = router.db_for_write(Event)
    with _writing(event, using, in_one_statement=is_one_statement(using)):
        _announce(event, insert_event(event, using), using)
    return event


aemit = sync_to_async(emit)


def send_test_event(webhook: Webhook, event_type: str, data: EventData | None = None) -> Delivery:
    """Queue a test event for one webhook, whatever it subscribes to; the type's example is the default data.

    Raises WebhookStateError for a deleted, disabled or paused webhook, and what ``emit`` raises. The platform's
    webhooks may be sent an operational event as well.
    """
    webhook.require_testable()
    webhook.require_running()
    find = registry.get if webhook.owner_id is None else registry.get_emittable
    found = find(event_type)
    event = _new_event(found, found.example if data is None else data, owner=webhook.owner, is_test=True)
    using = router.db_for_write(Event)
    with _writing(event, using):
        event.save(using=using, force_insert=True)
        delivery = Delivery.objects.using(using).queue(event=event, webhook=webhook, kind=Delivery.Kind.TEST)
        webhook.audit(Action.WEBHOOK_TESTED, {"event_type": [None, event_type], "delivery": [None, delivery.pk]})
        _announce(event, 1, using)
    return delivery


class Operational(NamedTuple):
    """What an operational event tells, and of which webhook."""

    event_type: EventType
    webhook_id: str
    data: Mapping[str, Any]


def emit_operational(using: str, happenings: Sequence[Operational]) -> int:
    """Record events of our own for the platform's webhooks that listen, in the caller's transaction; return how many.

    No webhook is told of itself, and what nobody listens to is not recorded.
    """
    platform = Webhook.objects.using(using).active().of_platform().order_by("pk").values_list("pk", "event_types")
    listeners = list(platform) if happenings else []
    events, deliveries = [], []
    for event_type, webhook_id, data in happenings:
        ids = [pk for pk, names in listeners if event_type.name in names and pk != webhook_id]
        if ids:
            event = _new_event(event_type, data, owner=None)
            events.append((event, len(ids)))
            deliveries += [Delivery(event=event, webhook_id=pk, next_attempt_at=UtcNow()) for pk in ids]
    if events:
        with transaction.atomic(using=using, savepoint=False):
            Event.objects.using(using).bulk_create([event for event, _ in events])
            Delivery.objects.using(using).bulk_create(deliveries)
            for event, number in events:
                _announce(event, number, using)
    return len(events)


def emit_on(
    signal: Signal,
    event_type: str,
    happening: Happening | None = None,
    *,
    sender: Any = None,
    dispatch_uid: Any = None,
) -> Callable[..., Any]:
    """Emit an event of this type whenever a Django signal is sent; usable as a decorator.

    ``happening`` is called with the signal's arguments and returns ``(owner, data)``, or None where nothing
    happened that an integrator should hear of. It is not called for rows that a fixture loads (``raw=True``).
    """
    if happening is None:
        return lambda function: emit_on(signal, event_type, function, sender=sender, dispatch_uid=dispatch_uid)

    def emit_happening(sender: Any, **kwargs: Any) -> None:
        kwargs.pop("signal", None)
        if kwargs.get("raw"):
            return
        found = happening(sender, **kwargs)
        if found is not None:
            owner, data = found
            emit(event_type, data, owner=owner)

    signal.connect(emit_happening, sender=sender, weak=False, dispatch_uid=dispatch_uid)
    return happening


def _new_event(
    event_type: EventType, data: EventData, *, owner: Any, occurred_at: datetime | None = None, is_test: bool = False
) -> Event:
    _check_owner(owner)
    name, valid_data = event_type.name, event_type.validate(data)
    created_at = timezone.now() if occurred_at is None else occurred_at
    if problem := _problem_of_time(created_at):
        raise InvalidEventDataError(name, {"occurred_at": problem})
    event_id = new_id("evt")
    body = encode(id=event_id, type=name, created=created_at, data=valid_data)
    if len(body) > settings.MAX_ENVELOPE_BYTES:
        raise InvalidEventDataError(
            name,
            {"": f"makes an envelope of {len(body):,} bytes; at most {settings.MAX_ENVELOPE_BYTES:,} are sent"},
        )
    return Event(id=event_id, type=name, owner=owner, body=body.decode(), is_test=is_test, created_at=created_at)


def _check_owner(owner: Any) -> None:
    if owner is None:
        return
    if not isinstance(owner, get_user_model()):
        # The class that it claims to be: request.user stands for another object.
        raise InvalidOwnerError(f"The owner is of type {owner.__class__.__name__}; give an account, or None.")
    if owner._state.adding:
        raise InvalidOwnerError("The owner is not saved yet; save the account before you emit an event of it.")
    if owner.pk is None:
        raise InvalidOwnerError("The owner is deleted; emit its last events before you delete the account.")


def _problem_of_time(moment: object) -> str:
    if not isinstance(moment, datetime):
        return f"is of type {type(moment).__name__}; give an aware datetime"
    if timezone.is_naive(moment):
        return "is naive; give an aware datetime"
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return "is outside the years 1 to 9999 in UTC"
    return ""


@contextmanager
def _writing(event: Event, using: str, *, in_one_statement: bool = False) -> Iterator[None]:
    """Write in the caller's transaction, or in one of its own; or say that the caller's can only be rolled back.

    Where there is none, one statement is one: BEGIN and COMMIT would each wait for the database once more.
    """
    connection = connections[using]
    refusal = (
        f"The event {event.type} cannot be emitted: an earlier error broke this transaction, and it can only be rolled "
        "back. Let that error leave its atomic() block before you emit."
    )
    if connection.in_atomic_block and connection.needs_rollback:
        raise transaction.TransactionManagementError(refusal)
    is_alone = in_one_statement and connection.get_autocommit()
    try:
        with nullcontext() if is_alone else transaction.atomic(using=using, savepoint=False):
            yield
    except InternalError as error:
        # PostgreSQL remembers an error that the caller caught, which Django does not.
        if getattr(error.__cause__, "sqlstate", "") != IN_FAILED_TRANSACTION:
            raise
        raise transaction.TransactionManagementError(refusal) from error


def _announce(event: Event, deliveries: int, using: str) -> None:
    def announce() -> None:
        event_emitted.send_robust(Event, event=event, deliveries=deliveries)
        if deliveries:
            deliveries_created.send_robust(Delivery)

    transaction.on_commit(announce, using=using)
