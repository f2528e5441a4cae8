"""Deleting what is older than it need be kept, a little at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from .conf import settings
from .models import Delivery, DeliveryAttempt, Event, Webhook

BATCH_SIZE = 500
"""Rows to a DELETE: few enough that nobody waits for its locks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """How many rows of each kind were deleted."""

    attempts: int
    deliveries: int
    events: int
    webhooks: int


def prune(
    *,
    now: datetime | None = None,
    attempt_age: timedelta | None = None,
    event_age: timedelta | None = None,
    progress: Callable[[int], None] = lambda deleted: None,
) -> Pruned:
    """Delete attempts, then deliveries and events, past their age; never what is not final.

    Webhooks that were deleted go with the last of their history, and replaced secrets when they sign nothing any more.
    ``progress`` is called with the size of each batch.
    """
    Webhook.objects.forget_ended_overlaps()
    prunable = _prunable(now, attempt_age, event_age)
    return Pruned(**{kind: _delete(rows, progress) for kind, rows in prunable.items()})


def count_prunable(
    *, now: datetime | None = None, attempt_age: timedelta | None = None, event_age: timedelta | None = None
) -> Pruned:
    """Return how many rows ``prune`` would delete now."""
    return Pruned(**{kind: rows.count() for kind, rows in _prunable(now, attempt_age, event_age).items()})


def _prunable(
    now: datetime | None, attempt_age: timedelta | None, event_age: timedelta | None
) -> dict[str, models.QuerySet[Any]]:
    """Return the rows past their age by kind, in the order in which they can go."""
    now = now or timezone.now()
    attempts_before = now - (attempt_age or timedelta(days=settings.ATTEMPT_RETENTION_DAYS))
    events_before = now - (event_age or timedelta(days=settings.EVENT_RETENTION_DAYS))
    kept = Delivery.objects.filter(models.Q(state=Delivery.State.PENDING) | models.Q(created_at__gte=events_before))
    return {
        "attempts": DeliveryAttempt.objects.filter(started_at__lt=attempts_before).exclude(
            delivery__state=Delivery.State.PENDING
        ),
        "deliveries": Delivery.objects.final().filter(created_at__lt=events_before),
        "events": Event.objects.older_than(events_before).exclude(
            models.Exists(kept.filter(event=models.OuterRef("pk")))
        ),
        "webhooks": Webhook.objects.filter(deleted_at__lt=events_before).exclude(
            models.Exists(kept.filter(webhook=models.OuterRef("pk")))
        ),
    }


def _delete(rows: models.QuerySet[Any], progress: Callable[[int], None]) -> int:
    """Delete in batches, each in a transaction of its own, and return how many rows of this kind went."""
    total = 0
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE]):
        _, by_model = rows.model.objects.filter(pk__in=ids).delete()
        deleted = by_model.get(rows.model._meta.label, 0)
        if not deleted:
            break
        total += deleted
        progress(deleted)
    return total
