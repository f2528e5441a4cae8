"""The usual way: one Celery task per delivery, which reads the row, posts with ``requests`` and records the result."""

from __future__ import annotations

import time
from collections.abc import Sequence

import requests
from celery import shared_task
from django.db import transaction
from django.utils import timezone

from webhooks_app.models import Delivery, DeliveryAttempt, QueueEntry
from webhooks_app.signatures import signed_headers


@shared_task(name="benchmarks.deliver_one")
def deliver_one(delivery_id: str) -> None:
    delivery = Delivery.objects.select_related("event", "webhook").get(pk=delivery_id)
    webhook, event = delivery.webhook, delivery.event
    assert event is not None
    started_at, body = timezone.now(), event.body.encode()
    headers = dict(signed_headers(webhook.secret, int(time.time()), event.type, body))
    response = requests.post(webhook.url, data=body, headers=headers, timeout=30)
    delivery.attempt_count += 1
    delivery.state = Delivery.State.SUCCEEDED if response.status_code == 200 else Delivery.State.GIVEN_UP
    delivery.finished_at = timezone.now()
    with transaction.atomic():
        DeliveryAttempt.objects.create(
            delivery=delivery,
            number=delivery.attempt_count,
            result=DeliveryAttempt.Result.SUCCEEDED,
            started_at=started_at,
            url=webhook.url,
            response_status=response.status_code,
            response_body=response.text[:16000],
        )
        QueueEntry.objects.filter(pk=delivery_id).remove()
        delivery.save(update_fields=["attempt_count", "state", "finished_at"])


def queue(delivery_ids: Sequence[str]) -> None:
    for delivery_id in delivery_ids:
        deliver_one.delay(delivery_id)
