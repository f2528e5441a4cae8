"""The handshake that a URL must pass before the first event is sent to it."""

from __future__ import annotations

from django.db import transaction

from .models import Delivery, Webhook
from .models.audit import Action
from .signals import deliveries_created


@transaction.atomic
def start_verification(webhook: Webhook) -> Delivery:
    """Hold the webhook's events back and queue a handshake; an older one can no longer decide anything.

    Raises WebhookStateError for a deleted, disabled or paused webhook.
    """
    webhook.lock()
    webhook.require_testable()
    webhook.require_running()
    with webhook.auditing(Action.VERIFICATION_STARTED):
        return queue_handshake(webhook)


def queue_handshake(webhook: Webhook) -> Delivery:
    """Do the same for a webhook that is locked, as part of something else; a handshake may be held by a pause then."""
    webhook.require_testable()
    webhook.await_verification()
    webhook.deliveries.filter(kind=Delivery.Kind.VERIFICATION).pending().cancel("superseded")
    delivery = Delivery.objects.queue(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
    transaction.on_commit(lambda: deliveries_created.send_robust(Delivery))
    return delivery
