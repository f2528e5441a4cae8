"""Notices of retries: a receiver is told that a delivery failed, and when it will be tried again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..conf import settings
from ..event_types import RETRY_NOTICE, retry_notice_data
from ..models import Delivery, Event, Webhook
from ..models.status import REQUESTED
from ..protocol.ids import new_id
from ..protocol.json_data import encode
from .claim import Claim, Finished


def save_notices(using: str, finished: Sequence[Finished]) -> None:
    """Queue a notice for each newly scheduled retry, if the webhook enables them.

    A notice has one attempt and expires at the time of the retry, so that it never delays the retry.
    """
    if not settings.RETRY_NOTICES:
        return
    announced = [
        (item, _notice(item, item.step.next_attempt_at))
        for item in finished
        if item.step.next_attempt_at is not None and _is_announced(item.claim)
    ]
    if announced:
        Event.objects.using(using).bulk_create([event for _, event in announced])
        deliveries = [_delivery(item, event) for item, event in announced]
        Delivery.objects.using(using).queue_all(deliveries, due_at=announced[0][0].ended_at)


def _is_announced(claim: Claim) -> bool:
    """Return True for a retry of an event. Handshakes are not events, and unverified webhooks receive no notices."""
    return claim.kind in REQUESTED and claim.lane.retry_notices and claim.lane.status == Webhook.Status.ACTIVE


def _notice(item: Finished, next_retry_at: datetime) -> Event:
    # Uses the database's clock like the time of the retry, because the worker's own clock may be wrong.
    created_at = item.ended_at
    event_id = new_id("evt", created_at)
    data = retry_notice_data(
        original_event_id=str(item.claim.event_id),
        retry_count=item.claim.number,
        next_retry_at=next_retry_at,
    )
    return Event(
        id=event_id,
        type=RETRY_NOTICE.name,
        owner_id=item.claim.lane.owner_id,
        body=encode(id=event_id, type=RETRY_NOTICE.name, created=created_at, data=data).decode(),
        is_test=item.claim.kind == Delivery.Kind.TEST,
        created_at=created_at,
    )


def _delivery(item: Finished, event: Event) -> Delivery:
    return Delivery(
        id=new_id("dlv", event.created_at),
        event=event,
        created_at=event.created_at,
        webhook_id=item.claim.webhook_id,
        kind=Delivery.Kind.RETRY_NOTICE,
        max_attempts=1,
        expires_at=item.step.next_attempt_at,
    )
