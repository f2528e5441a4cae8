"""Webhooks in command-line arguments."""

from __future__ import annotations

from django.core.management.base import CommandError

from ..models import Webhook


def get_webhook(webhook_id: str) -> Webhook:
    """Return the webhook with this id, of any owner. Raises CommandError if it does not exist or is deleted."""
    webhook = Webhook.objects.existing().filter(pk=webhook_id).first()
    if webhook is None:
        raise CommandError(f"Unknown webhook {webhook_id!r}. An id looks like wh_019c138f9ac012d1c9a64a2e0f3b7d55.")
    return webhook
