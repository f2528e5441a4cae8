"""The job that evaluates the filters that were not evaluated when their event was emitted.

It runs outside of the host's transaction, for one event at a time, so that it may take longer than ``emit``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import connections

from ..conf import settings
from ..database.sql import CompiledValues, Slot, UtcNow, concerns_rows, kind_of, writing
from ..filters import WORKER_STEPS
from ..models import Delivery, Event, QueueEntry, QueueLane, Webhook
from ..models.delivery import MISMATCHED
from ..models.fields import compact_json
from ..protocol.ids import first_id_at, time_of
from ..routing import FilterResult, evaluate_filter, is_readable
from ..signals import announce_deliveries

logger = logging.getLogger("webhooks_app.maintenance")

FILTERING_SECONDS = 1.0
"""Duration after which a run evaluates no other event, so that the other jobs can run. A pause as long follows."""

EVALUATED_AT_A_TIME = 20
"""Deliveries of one webhook before the next webhook has its turn."""

AGAIN_AFTER = timedelta(minutes=5)
"""Least time to the next evaluation. It grows with the age of the delivery if the budget was exceeded."""


def evaluate_filters(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Evaluate filters for the deliveries that await it. Return the seconds until the next run if more are due."""
    began = time.monotonic()
    while webhook_ids := _in_turn(using, now, facts.get("after", "")):
        for webhook_id in webhook_ids:
            facts["after"] = webhook_id
            _evaluate_some(using, webhook_id, now, ends_at=began + FILTERING_SECONDS)
            if (spent := time.monotonic() - began) > FILTERING_SECONDS:
                return spent
    return None


def _in_turn(using: str, now: datetime, after: str) -> list[str]:
    """Return the webhooks with due evaluations, starting after the last one that had its turn."""
    moment = connections[using].ops.adapt_datetimefield_value(now)
    ids = sorted(webhook_id for (webhook_id,) in _webhooks_with_due(using).fetch({"now": moment}))
    return [pk for pk in ids if pk > after] + [pk for pk in ids if pk <= after]


@lru_cache(maxsize=16)
def _webhooks_with_due(using: str) -> CompiledValues:
    """Return the webhooks with due evaluations. Compiled once, because workers ask for them all the time."""
    due = QueueEntry.objects.using(using).awaiting_filter().filter(filter_at__lte=Slot("now")).order_by()
    return CompiledValues(due.values_list("webhook").distinct())


def _evaluate_some(using: str, webhook_id: str, now: datetime, *, ends_at: float) -> None:
    entries = QueueEntry.objects.using(using).awaiting_filter().filter(webhook=webhook_id)
    kept_since = now - timedelta(days=settings.ATTEMPT_RETENTION_DAYS)
    _cancel(using, entries.filter(pk__lt=first_id_at("dlv", kept_since)).values_list("pk", flat=True), "expired")
    webhook = Webhook.objects.using(using).filter(pk=webhook_id).only("filter").first()
    source = None if webhook is None or webhook.filter is None else compact_json(webhook.filter)
    if source is not None and not is_readable(source):
        evaluate_filter(webhook_id, source, {})  # logs the problem
        _postpone(using, webhook_id, entries, now + AGAIN_AFTER)
        return
    due = entries.filter(filter_at__lte=now).order_by("filter_at", "pk")
    found: dict[FilterResult, list[str]] = {result: [] for result in FilterResult}
    for delivery_id, event_id in due.values_list("pk", "event")[:EVALUATED_AT_A_TIME]:
        found[_evaluated(using, webhook_id, source, event_id)].append(delivery_id)
        if time.monotonic() > ends_at:
            break
    _send(using, webhook_id, found[FilterResult.MATCH])
    _cancel(using, found[FilterResult.MISMATCH], MISMATCHED)
    for delivery_id in found[FilterResult.PENDING]:
        again_at = now + max(AGAIN_AFTER, now - time_of(delivery_id))
        _postpone(using, webhook_id, entries.filter(pk=delivery_id), again_at)


def _evaluated(using: str, webhook_id: str, source: str | None, event_id: str) -> FilterResult:
    """Return the verdict for an event. A worker cancels the delivery of an event without a body when it claims it."""
    rows = Event.objects.using(using).filter(pk=event_id).values_list("body", flat=True)
    body = None if source is None else rows.first()
    if source is None or not body:
        return FilterResult.MATCH
    try:
        return evaluate_filter(webhook_id, source, json.loads(body)["data"], steps=WORKER_STEPS)
    except Exception as error:
        if not concerns_rows(error):
            raise
        logger.error("Event %s is damaged, so that no filter can be evaluated: %s.", event_id, kind_of(error))  # noqa: TRY400
        return FilterResult.PENDING


def _send(using: str, webhook_id: str, delivery_ids: Sequence[str]) -> None:
    """Make deliveries due, if they still await the filter."""
    if not delivery_ids:
        return
    with writing(using, QueueEntry):
        QueueLane.objects.using(using).lock([webhook_id])
        entries = QueueEntry.objects.using(using).awaiting_filter().filter(pk__in=delivery_ids)
        entries.update(filter_at=None, due_at=UtcNow())
        announce_deliveries(using, [webhook_id])


def _cancel(using: str, delivery_ids: Any, reason: str) -> None:
    if ids := list(delivery_ids):
        entries = QueueEntry.objects.using(using).awaiting_filter().filter(pk__in=ids)
        Delivery.objects.using(using).filter(pk__in=ids).cancel(reason, among=entries)


def _postpone(using: str, webhook_id: str, entries: Any, until: datetime) -> None:
    with writing(using, QueueEntry):
        QueueLane.objects.using(using).lock([webhook_id])
        entries.update(filter_at=until)
