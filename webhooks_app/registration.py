"""Creating and changing webhooks, by whatever way they come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.db import router, transaction

from .models import Webhook, WebhookHealth
from .models.audit import Action
from .models.sql import writing
from .verification import queue_handshake

CHANGEABLE_FIELDS = ("owner", "url", "event_types", "description", "retry_notices", "max_in_flight", "rate_limit")


def register_webhook(
    *, owner: Any, url: str, event_types: Sequence[str], secret: str | None = None, **fields: Any
) -> Webhook:
    """Create a webhook and start its verification; ``webhook.secret`` is the given secret or a new one.

    Raises django.core.exceptions.ValidationError with the problems by field.
    """
    webhook = Webhook(owner=owner, url=url, event_types=list(event_types), **fields)
    if secret is not None:
        webhook.secret = secret
    return save_webhook(webhook)


def save_webhook(webhook: Webhook) -> Webhook:
    """Validate and save a new or changed webhook; a new URL is verified before anything else is sent to it.

    Raises django.core.exceptions.ValidationError with the problems by field.
    """
    with writing(router.db_for_write(Webhook), Webhook):
        is_new = webhook._state.adding
        if is_new:
            _lock_account(webhook)
        webhook.full_clean()
        if is_new:
            webhook.save(force_insert=True)
            queue_handshake(webhook)
            webhook.audit_creation(Action.WEBHOOK_CREATED)
            return webhook
        saved = webhook.lock()
        with webhook.auditing(Action.WEBHOOK_CHANGED, since=saved):
            webhook.save(update_fields=CHANGEABLE_FIELDS)
            if saved.url != webhook.url:
                WebhookHealth.objects.clear(webhook)
                if webhook.status != Webhook.Status.DISABLED:
                    queue_handshake(webhook)
    return webhook


@transaction.atomic
def enable_webhook(webhook: Webhook) -> None:
    """Let a disabled webhook receive again, once its URL has passed a handshake anew; it counts as well until it fails.

    Raises WebhookStateError for one that is deleted, or not disabled.
    """
    webhook.lock()
    webhook.require_disabled()
    with webhook.auditing(Action.WEBHOOK_ENABLED):
        webhook.await_verification()
        WebhookHealth.objects.clear(webhook)
        queue_handshake(webhook)


def _lock_account(webhook: Webhook) -> None:
    """Let an account's webhooks be counted and added by one at a time."""
    if webhook.owner_id is not None:
        accounts = get_user_model()._default_manager.select_for_update().filter(pk=webhook.owner_id)
        accounts.values_list("pk", flat=True).first()
