"""Emission of operational events, about this app's own webhooks and deliveries, for the platform's webhooks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import transaction

from ..database.sql import concerns_rows, kind_of
from ..event_types import EventType
from ..models import Delivery, Event, QueueEntry, Webhook
from ..routing import Reason, RoutedEvent, admits, webhooks_for
from .events import new_event
from .outbox import Queued, announce_events

logger = logging.getLogger("webhooks_app.emission")


class Operational(NamedTuple):
    """The contents of an operational event, and the webhook that it is about."""

    event_type: EventType[Any]
    webhook_id: str
    data: Mapping[str, Any]


def emit_operational(using: str, operational: Sequence[Operational]) -> int:
    """Record operational events in the caller's transaction, unless no webhook receives them; return their number.

    They are written in bulk, after one query for each type. One about a damaged row is logged and left out, because it
    must prevent neither the others nor the change that it reports.
    """
    names = {each.event_type.name for each in operational}
    subscribers = {name: webhooks_for(RoutedEvent(type=name), using).order_by("pk").readable() for name in names}
    events: list[tuple[Event, Queued]] = []
    deliveries: list[Delivery] = []
    for each in operational:
        try:
            receiving = _receiving(each, subscribers[each.event_type.name])
            if not receiving:
                continue
            event = new_event(each.event_type, each.data, owner=None)
            queued = [Delivery(event=event, webhook=webhook, **webhook.retries_of("event")) for webhook in receiving]
        except Exception as error:
            if not concerns_rows(error):
                raise
            name = each.event_type.name
            logger.error("The event %s about webhook %s is lost: %s.", name, each.webhook_id, kind_of(error))  # noqa: TRY400
            continue
        events.append((event, Queued(len(queued), [delivery.webhook_id for delivery in queued])))
        deliveries += queued
    if events:
        with transaction.atomic(using=using, savepoint=False):
            Event.objects.using(using).bulk_create([event for event, _ in events])
            Delivery.objects.using(using).bulk_create(deliveries)
            QueueEntry.objects.using(using).add(deliveries)
            announce_events(using, *events)
    return len(events)


def _receiving(operational: Operational, subscribers: Sequence[Webhook]) -> list[Webhook]:
    event_type, webhook_id, data = operational
    routed = RoutedEvent(type=event_type.name, subject_id=webhook_id, data=data)
    return [webhook for webhook in subscribers if admits(webhook, routed) == Reason.SENT]
