"""The handshake that a URL must pass before its first event."""

from __future__ import annotations

from ..models import Delivery, QueueEntry, Webhook, WebhookHealth
from ..models.audit import Action
from ..signals import announce_deliveries
from .actors import BaseActor
from .performing import performing
from .rate_limits import limit_verification
from .rights import VERIFY_WEBHOOK

__all__ = ["start_verification"]


def start_verification(webhook: Webhook, *, actor: BaseActor) -> Delivery:
    """Hold the webhook's events and queue a handshake; an earlier handshake becomes ineffective.

    Raises WebhookStateError for a deleted, disabled or paused webhook, RateLimitedError and LimitsUnavailableError.
    """
    with performing(VERIFY_WEBHOOK, webhook, actor):
        webhook.require_testable()
        webhook.require_running()
        limit_verification(webhook, actor=actor)
        with webhook.auditing(Action.VERIFICATION_STARTED):
            if webhook.is_stopped:
                WebhookHealth.objects.clear(webhook)
            return queue_handshake(webhook)


def queue_handshake(webhook: Webhook, *, is_first: bool = False) -> Delivery:
    """Hold the events of a locked webhook and queue a handshake, as a part of another operation.

    A pause may hold the handshake. An earlier one is cancelled. ``is_first`` is for a new webhook, which is pending.
    """
    if not is_first:
        webhook.await_verification()
        _cancel_handshake(webhook)
    delivery = Delivery.objects.queue(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
    announce_deliveries(delivery.alias)
    return delivery


def _cancel_handshake(webhook: Webhook) -> None:
    handshakes = webhook.deliveries.filter(kind=Delivery.Kind.VERIFICATION)
    entries = QueueEntry.objects.using(webhook.alias).filter(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
    handshakes.cancel("superseded", among=entries)
