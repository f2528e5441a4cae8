"""The handshake that a URL must pass before the first event is sent to it."""

from __future__ import annotations

from django.db import transaction

from .models import Delivery, Webhook
from .signals import deliveries_created


@transaction.atomic
def start_verification(webhook: Webhook, *, may_be_held: bool = False) -> Delivery:
    """Hold the webhook's events back and queue a handshake; an older one can no longer decide anything.

    Raises WebhookStateError for a deleted or disabled webhook, and for one that is paused unless its handshake
    ``may_be_held`` until it is resumed.
    """
    webhook.lock()
    webhook.require_testable()
    if not may_be_held:
        webhook.require_running()
    webhook.await_verification()
    webhook.deliveries.filter(kind=Delivery.Kind.VERIFICATION).pending().cancel("superseded")
    delivery = Delivery.objects.queue(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
    transaction.on_commit(lambda: deliveries_created.send_robust(Delivery))
    return delivery
