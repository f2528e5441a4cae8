"""Rows for tests of several parts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from webhooks_app import emit
from webhooks_app.models import (
    Delivery,
    DeliveryAttempt,
    Episode,
    Event,
    EventReference,
    IdempotencyKey,
    Problem,
    QueueEntry,
    Replay,
    Webhook,
    WebhookHealth,
)
from webhooks_app.operations import replays
from webhooks_app.operations.actors import ProjectCode
from webhooks_app.operations.registration import register_webhook
from webhooks_app.protocol.ids import first_id_at

URL = "http://127.0.0.1:9000/hook"
EVENT_TYPE = "ppt.generation.failed"


def make_webhook(owner: Any, *event_types: str, status: str = "active", url: str = URL, **fields: Any) -> Webhook:
    """Register a webhook, and skip its handshake unless it should remain pending."""
    webhook = register_webhook(owner=owner, url=url, event_types=event_types or [EVENT_TYPE], **fields)
    if status != Webhook.Status.PENDING:
        webhook.deliveries.all().delete()
        Webhook.objects.filter(pk=webhook.pk).update(status=status)
        webhook.refresh_from_db()
    return webhook


def unverified(webhook: Webhook) -> Webhook:
    """Make a webhook await a verification, without one in the queue, and return it."""
    Webhook.objects.filter(pk=webhook.pk).update(status=Webhook.Status.PENDING)
    webhook.refresh_from_db()
    return webhook


def plan_replay(webhook: Webhook, *, requested_by: Any = None, **fields: Any) -> Replay:
    return replays.plan(webhook, actor=ProjectCode(account=requested_by), **fields)


def make_problem(webhook: Webhook, code: int = 0, **fields: Any) -> Problem:
    """Create a problem with failures since a moment ago: timeouts, or answers with this status code."""
    now = timezone.now()
    seen = {"count": 1, "first_seen_at": now, "last_seen_at": now, "opened_at": now}
    result = "http_status" if code else "timeout"
    return Problem.objects.create(webhook=webhook, **{**seen, "result": result, "code": code, **fields})


def make_recovering(webhook: Webhook, **fields: Any) -> Episode:
    """Create the automatic recovery of a webhook that has failed for two minutes. Its next attempt is in four."""
    at = timezone.now() - timedelta(minutes=2)
    failing = {"failing_since": at, "given_up_since": at, "last_given_up_at": at, "given_up_count": 1}
    WebhookHealth.objects.create(webhook=webhook, missed_from=at, **failing)
    Webhook.objects.filter(pk=webhook.pk).update(recovery="automatic")
    due = {"attempts": 1, "next_step_at": at + timedelta(minutes=6)}
    return Episode.objects.create(webhook=webhook, began_at=at, missed_from=at, failed_at=at, **{**due, **fields})


def emit_one(owner: Any, error: str = "No outline") -> Event:
    return emit(EVENT_TYPE, {"error": error}, owner=owner)


def make_backlog(webhook: Webhook, number: int) -> None:
    """Queue deliveries of one event."""
    event = emit_one(webhook.owner)
    webhook.deliveries.filter(event=event).delete()
    with transaction.atomic():
        new = [Delivery(event=event, webhook=webhook) for _ in range(number)]
        QueueEntry.objects.add(Delivery.objects.bulk_create(new))


def deliveries(kind: str = "event") -> list[Delivery]:
    return list(Delivery.objects.filter(kind=kind).order_by("created_at"))


def end_deliveries(queryset: Any = None, *, state: str, **fields: Any) -> None:
    """Make these deliveries, or all, final without an attempt."""
    chosen = Delivery.objects.all() if queryset is None else queryset
    ids = list(chosen.values_list("pk", flat=True))
    QueueEntry.objects.filter(pk__in=ids).delete()
    Delivery.objects.filter(pk__in=ids).update(state=state, **fields)


def make_older(event: Event, age: timedelta) -> Event:
    """Create an event and its history with this age. Identifiers contain the time."""
    then = timezone.now() - age
    for delivery in Delivery.objects.filter(event=event):
        delivery_id = make_id_older(delivery.pk, age)
        DeliveryAttempt.objects.filter(delivery=delivery).update(delivery=delivery_id, started_at=then)
        QueueEntry.objects.filter(delivery=delivery).update(delivery=delivery_id)
        Delivery.objects.filter(pk=delivery.pk).update(id=delivery_id, created_at=then)
    event_id = make_id_older(event.pk, age)
    Delivery.objects.filter(event=event).update(event=event_id)
    QueueEntry.objects.filter(event=event).update(event=event_id)
    IdempotencyKey.objects.filter(event=event).update(event=event_id)
    EventReference.objects.filter(event=event).update(event=event_id)
    Event.objects.filter(pk=event.pk).update(id=event_id, created_at=then)
    return Event.objects.get(pk=event_id)


def make_id_older(pk: str, age: timedelta) -> str:
    return first_id_at(pk.partition("_")[0], timezone.now() - age)[:-20] + pk[-20:]
