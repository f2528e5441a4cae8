"""From a happening in the host to rows that will be delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import router, transaction
from django.dispatch import Signal
from django.utils import timezone

from .conf import settings
from .envelope import encode
from .event_types import registry
from .exceptions import InvalidEventDataError, InvalidOwnerError
from .ids import new_id
from .models import Delivery, Event, Webhook
from .signals import deliveries_created, event_emitted

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import BaseModel

    EventData = Mapping[str, Any] | BaseModel
    Happening = Callable[..., tuple[Any, EventData] | None]


def emit(event_type: str, data: EventData, *, owner: Any, occurred_at: datetime | None = None) -> Event:
    """Record an event and one delivery for each webhook that listens, in the caller's transaction.

    ``data`` is a mapping, or an instance of the event type's data model. ``owner`` is the saved account whose
    webhooks get the event beside the platform's; None for the platform's alone. ``occurred_at`` is an aware
    datetime, now by default.

    Raises UnknownEventTypeError, InvalidEventDataError or InvalidOwnerError; nothing is written then. Whether a
    broker is there makes no difference: what is committed will be sent.
    """
    event = _new_event(event_type, data, owner=owner, occurred_at=occurred_at)
    using = router.db_for_write(Event)
    with transaction.atomic(using=using, savepoint=False):
        event.save(using=using, force_insert=True)
        deliveries = Delivery.objects.using(using).fan_out(
            event, Webhook.objects.using(using).listening_to(event.type, owner)
        )
        _announce(event, deliveries, using)
    return event


aemit = sync_to_async(emit)


def send_test_event(webhook: Webhook, event_type: str, data: EventData | None = None) -> Delivery:
    """Queue a test event for one webhook, whatever it subscribes to; the type's example is the default data.

    Raises WebhookStateError for a deleted or disabled webhook, and what ``emit`` raises.
    """
    webhook.require_testable()
    example = registry.get(event_type).example if data is None else data
    event = _new_event(event_type, example, owner=webhook.owner, is_test=True)
    using = router.db_for_write(Event)
    with transaction.atomic(using=using, savepoint=False):
        event.save(using=using, force_insert=True)
        delivery = Delivery.objects.using(using).create(
            event=event,
            webhook=webhook,
            kind=Delivery.Kind.TEST,
        )
        _announce(event, 1, using)
    return delivery


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
    event_type: str, data: EventData, *, owner: Any, occurred_at: datetime | None = None, is_test: bool = False
) -> Event:
    _check_owner(owner)
    created_at = occurred_at or timezone.now()
    if timezone.is_naive(created_at):
        raise InvalidEventDataError(event_type, {"occurred_at": "is naive; give an aware datetime"})
    event_id = new_id("evt")
    body = encode(id=event_id, type=event_type, created=created_at, data=registry.get(event_type).validate(data))
    if len(body) > settings.MAX_ENVELOPE_BYTES:
        raise InvalidEventDataError(
            event_type,
            {"": f"makes an envelope of {len(body):,} bytes; at most {settings.MAX_ENVELOPE_BYTES:,} are sent"},
        )
    return Event(id=event_id, type=event_type, owner=owner, body=body.decode(), is_test=is_test, created_at=created_at)


def _check_owner(owner: Any) -> None:
    if owner is None:
        return
    if not isinstance(owner, get_user_model()):
        raise InvalidOwnerError(f"The owner is of type {type(owner).__name__}; give an account, or None.")
    if owner._state.adding:
        raise InvalidOwnerError("The owner is not saved yet; save the account before you emit an event of it.")


def _announce(event: Event, deliveries: int, using: str) -> None:
    def announce() -> None:
        event_emitted.send_robust(Event, event=event, deliveries=deliveries)
        if deliveries:
            deliveries_created.send_robust(Delivery)

    transaction.on_commit(announce, using=using)
