"""Sending one event to one webhook on request: a test or a redelivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emission import new_test_event, queue_test
from ..models import Delivery, Webhook
from .actors import PROJECT, BaseActor
from .performing import performing
from .rate_limits import limit_test
from .rights import REDELIVER, TEST_WEBHOOK

if TYPE_CHECKING:
    from ..emission.events import EventData

__all__ = ["redeliver", "send_test_event"]


def send_test_event(
    webhook: Webhook, event_type: str, data: EventData | None = None, *, actor: BaseActor = PROJECT
) -> Delivery:
    """Queue a test event for one webhook, regardless of its subscriptions; the default data is the type's example.

    The platform's webhooks also accept operational events. Raises WebhookStateError for a deleted, disabled or paused
    webhook, UnknownEventTypeError, InvalidEventDataError, RateLimitedError and LimitsUnavailableError.
    """
    with performing(TEST_WEBHOOK, webhook, actor):
        event = new_test_event(webhook, event_type, data)
        limit_test(webhook, actor=actor)
        return queue_test(event, webhook)


def redeliver(delivery: Delivery, *, actor: BaseActor) -> Delivery:
    """Send the event of a delivery once more, as a new delivery with its own attempts; return the new delivery.

    A redelivered test counts as a test. Raises WebhookStateError, RateLimitedError and LimitsUnavailableError.
    """
    with performing(REDELIVER, delivery.webhook, actor):
        redelivery = delivery.redeliver(requested_by=actor.account)
        if delivery.kind == Delivery.Kind.TEST:  # last, so that a refused one is not counted
            limit_test(delivery.webhook, actor=actor)
    return redelivery
