"""The handshake that a URL must pass before the first event is sent to it."""

from __future__ import annotations

from django.db import transaction

from .models import Delivery, Webhook
from .signals import deliveries_created


@transaction.atomic
def start_verification(webhook: Webhook) -> Delivery:
    """Hold the webhook's events back and queue a handshake; an older one can no longer decide anything.

    Raises WebhookStateError for a deleted or disabled webhook.
    """
    webhook.lock()
    webhook.require_testable()
    webhook.await_verification()
    webhook.deliveries.filter(kind=Delivery.Kind.VERIFICATION).pending().cancel("superseded")
    deliveries = Delivery.objects.using(webhook._state.db)
    delivery = deliveries.queue(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
    transaction.on_commit(lambda: deliveries_created.send_robust(Delivery))
    return delivery
