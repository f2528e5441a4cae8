"""Cancellation of pending deliveries that a look finds, but that must not be sent."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import datetime

from ..database.sql import concerns_rows, kind_of, writing
from ..models import Delivery, QueueEntry, QueueLane, Webhook
from ..models.queue_entry import ENTRIES_AT_A_TIME
from ..models.status import stop_reason
from .claim import Claim, DueWebhook
from .schedule import Found, Look

logger = logging.getLogger("webhooks_app.delivery")


def sendable(using: str, claims: list[Claim], now: datetime) -> list[Claim]:
    """Cancel expired deliveries, and those whose event is missing. Return the others."""
    expired = {
        claim.delivery_id
        for claim in claims
        if claim.expires_at and claim.expires_at <= now and claim.lost_since is None
    }
    gone = {
        claim.delivery_id
        for claim in claims
        if not claim.event_type or (claim.event_id is None and claim.kind != Delivery.Kind.VERIFICATION)
    } - expired
    if not expired and not gone:
        return claims
    _cancel(using, expired, "expired")
    _cancel(using, gone, "event_deleted")
    return [claim for claim in claims if claim.delivery_id not in expired | gone]


def cancel_stopped(using: str, page: Sequence[DueWebhook], look: Look) -> Found:
    """Cancel at most a page of the deliveries of stopped webhooks. If more may remain, a look is due at once."""
    left, unreadable = ENTRIES_AT_A_TIME, []
    for found in page:
        if not found.is_stopped or not left or found.webhook_id in look.unreadable:
            continue
        try:
            left -= _cancel_first(using, found.webhook_id, left)
        except Exception as error:
            if not concerns_rows(error):
                raise
            report_unreadable(using, found.webhook_id, error)
            unreadable.append(found.webhook_id)
    return Found(moments=() if left else [look.now.at], unreadable=unreadable)


def report_unreadable(using: str, webhook_id: str, error: Exception) -> None:
    """Log that a row of a webhook cannot be used, and reset its shared state. Workers skip it for a while."""
    text = "The deliveries of webhook %s are skipped, because a row of it cannot be used: %s."
    logger.error(text, webhook_id, kind_of(error), extra={"webhook_id": webhook_id})
    QueueLane.objects.using(using).filter(pk=webhook_id).update(in_flight={}, next_slot_at=None)


def _cancel_first(using: str, webhook_id: str, limit: int) -> int:
    """Cancel the first pending deliveries of a webhook if it is still stopped. Return their number.

    A webhook that another transaction holds is skipped.
    """
    with writing(using, Webhook):
        webhook = Webhook.objects.using(using).filter(pk=webhook_id).order_by().free().first()
        is_stopped = webhook is not None and stop_reason(Delivery.Kind.EVENT, webhook)
        if webhook is None or not is_stopped or not QueueLane.objects.using(using).lock_free(webhook_id):
            return 0
        return Delivery.objects.using(using).cancel_stopped(webhook, limit=limit)


def _cancel(using: str, ids: Collection[str], reason: str) -> None:
    if ids:
        entries = QueueEntry.objects.using(using).filter(pk__in=ids)
        Delivery.objects.using(using).filter(pk__in=ids).cancel(reason, among=entries)
