"""Sending on request: the events of other services, and one event to one webhook as a test or a redelivery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..emission import NewEvent, emit_many, new_test_event, queue_test
from ..models import Delivery, Event, Webhook
from .actions import RETRY, SEND_AGAIN, SEND_TEST
from .actors import PROJECT, BaseActor
from .rate_limits import limit_test
from .rights import EMIT_EVENT

if TYPE_CHECKING:
    from ..emission.events import EventData

__all__ = ["redeliver", "retry", "send_test_event"]


def emit_events(new_events: Sequence[NewEvent[Any]], *, actor: BaseActor) -> list[Event]:
    """Record all of these events, or none; return them in the given order. Other services call this with a service key.

    Raise django.core.exceptions.PermissionDenied, and InvalidBatchError with the errors by index.
    """
    for owner_id in {getattr(new.owner, "pk", None) for new in new_events}:
        actor.require(EMIT_EVENT, owner_id)
    return emit_many(new_events)


def send_test_event(
    webhook: Webhook, event_type: str, data: EventData | None = None, *, actor: BaseActor = PROJECT
) -> Delivery:
    """Queue a test event for one webhook, regardless of its subscriptions; the default data is the type's example.

    The platform's webhooks also accept operational events. Raise WebhookStateError for a deleted, disabled or paused
    webhook, UnknownEventTypeError, InvalidEventDataError, RateLimitedError and LimitsUnavailableError.
    """
    with SEND_TEST.on(webhook, actor):
        event = new_test_event(webhook, event_type, data)
        limit_test(webhook, actor=actor)
        return queue_test(event, webhook)


def redeliver(delivery: Delivery, *, actor: BaseActor) -> Delivery:
    """Send the event of a delivery once more, as a new delivery with its own attempts; return the new delivery.

    A redelivered test counts as a test. Raise WebhookStateError, RateLimitedError and LimitsUnavailableError; the
    first also for a pending delivery, see ``retry``.
    """
    with SEND_AGAIN.on(delivery, actor):
        redelivery = delivery.redeliver(requested_by=actor.account)
        if delivery.kind == Delivery.Kind.TEST:  # last, so that a refused one is not counted
            limit_test(delivery.webhook, actor=actor)
    return redelivery


def retry(delivery: Delivery, *, actor: BaseActor) -> Delivery:
    """Make the next attempt of a pending delivery at once, as a part of its series of attempts; return the delivery.

    The limits of its webhook apply. A test that is retried counts as a test. Raise WebhookStateError for a delivery
    that is finished, in flight, or held by something else than its time, AlreadyInStateError for one that is due,
    RateLimitedError and LimitsUnavailableError.
    """
    with RETRY.on(delivery, actor):
        if delivery.kind == Delivery.Kind.TEST:
            limit_test(delivery.webhook, actor=actor)
        delivery.hasten()
    return delivery
