"""Rows that the tests of many parts need."""

from __future__ import annotations

from typing import Any

from webhooks_app import emit
from webhooks_app.models import Delivery, Event, Webhook
from webhooks_app.registration import register_webhook

URL = "http://127.0.0.1:9000/hook"
EVENT_TYPE = "ppt.generation.failed"


def make_webhook(owner: Any, *event_types: str, status: str = "active", url: str = URL, **fields: Any) -> Webhook:
    """Register a webhook and, unless it is to stay pending, skip its handshake."""
    webhook = register_webhook(owner=owner, url=url, event_types=event_types or [EVENT_TYPE], **fields)
    if status != Webhook.Status.PENDING:
        webhook.deliveries.all().delete()
        Webhook.objects.filter(pk=webhook.pk).update(status=status)
        webhook.refresh_from_db()
    return webhook


def emit_one(owner: Any, error: str = "No outline") -> Event:
    return emit(EVENT_TYPE, {"error": error}, owner=owner)


def deliveries(kind: str = "event") -> list[Delivery]:
    return list(Delivery.objects.filter(kind=kind).order_by("created_at"))
