"""Emission of operational events, about this app's own webhooks and deliveries, for the platform's webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import transaction

from ..event_types import EventType
from ..models import Delivery, Event, QueueEntry
from ..routing import Reason, RoutedEvent, admits, webhooks_for
from .events import new_event
from .outbox import Queued, announce_events


class Operational(NamedTuple):
    """The contents of an operational event, and the webhook that it is about."""

    event_type: EventType[Any]
    webhook_id: str
    data: Mapping[str, Any]


def emit_operational(using: str, operational: Sequence[Operational]) -> int:
    """Record operational events in the caller's transaction, unless no webhook receives them; return their number.

    They are written in bulk, after one query for each type.
    """
    names = {each.event_type.name for each in operational}
    subscribers = {name: list(webhooks_for(RoutedEvent(type=name), using).order_by("pk")) for name in sorted(names)}
    events, deliveries = [], []
    for event_type, webhook_id, data in operational:
        routed = RoutedEvent(type=event_type.name, subject_id=webhook_id, data=data)
        by_id = {webhook.pk: webhook for webhook in subscribers[routed.type]}
        ids = [webhook.pk for webhook in subscribers[routed.type] if admits(webhook, routed) == Reason.SENT]
        if ids:
            event = new_event(event_type, data, owner=None)
            events.append((event, Queued(len(ids), ids)))
            deliveries += [Delivery(event=event, webhook=by_id[pk], **by_id[pk].retries_of("event")) for pk in ids]
    if events:
        with transaction.atomic(using=using, savepoint=False):
            Event.objects.using(using).bulk_create([event for event, _ in events])
            Delivery.objects.using(using).bulk_create(deliveries)
            QueueEntry.objects.using(using).add(deliveries)
            announce_events(using, *events)
    return len(events)
