"""Recent results of each webhook, summed up from its roll-ups, so that thousands of webhooks can be sorted at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import Count

from ...database.sql import upsert
from ...models import QueueEntry, RecentResults, Rollup, WebhookHealth
from ...models.rollup import EVERY_WEBHOOK, OUTCOMES, RESPONSE_TIME
from .folding import changing, names_in, sums_by
from .reading import Counters, Window, spans

SPANS = (Window.HOUR, Window.DAY, Window.WEEK)
QUEUED = "queued"
"""The name of the number of queued deliveries, beside the names of the spans."""

Z = 1.96
"""Quantile of the normal distribution for a confidence of 95 %."""


def lower_bound(part: int, whole: int) -> float:
    """Return the lower bound of Wilson's score interval: the lower end of the 95 % confidence interval."""
    share, z2 = part / whole, Z * Z
    margin = Z * math.sqrt((share * (1 - share) + z2 / (4 * whole)) / whole)
    return max(0.0, (share + z2 / (2 * whole) - margin) / (1 + z2 / whole))


def figures(counters: Counters) -> dict[str, Any]:
    """Return the figures of one span by name. ``worst`` is the lower bound of the share given up."""
    finished, given_up, times = counters.finished, counters.given_up, counters.response_times
    found: dict[str, Any] = {"finished": finished, "given_up": given_up}
    if finished:
        found["worst"] = round(lower_bound(given_up, finished), 4)
    if times.count:
        found |= {name: round(times.percentile(share) or 0) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return found


Recent: TypeAlias = dict[str, dict[str, Any]]
"""The recent results of webhooks: the figures of each span, and the number of queued deliveries."""


def sum_up(using: str, webhook_ids: Sequence[str], now: datetime) -> Recent:
    """Store the recent results of these webhooks, and the numbers of their queued deliveries. Return them."""
    found: Recent = {webhook_id: {} for webhook_id in webhook_ids}
    for window in SPANS:
        rows = Rollup.objects.using(using).filter(spans(window, now))
        names = names_in(rows.filter(webhook_id=EVERY_WEBHOOK))
        counted = [name for name in names if name.startswith((*OUTCOMES, RESPONSE_TIME))]
        for webhook_id, sums in sums_by("webhook_id", rows.filter(webhook_id__in=webhook_ids), counted).items():
            found[webhook_id][window.value] = figures(Counters(sums))
    queued = QueueEntry.objects.using(using).filter(webhook__in=webhook_ids).order_by()
    for webhook_id, number in queued.values_list("webhook").annotate(number=Count("pk")):
        found[webhook_id][QUEUED] = number
    _store(using, found)
    return found


def pack(using: str, place: int, webhook_ids: Sequence[str], found: Recent) -> None:
    """Store the recent results of these webhooks once more, together in the row of this place."""
    parts = (*(window.value for window in SPANS), QUEUED)
    results = {part: {pk: recent[part] for pk, recent in found.items() if part in recent} for part in parts}
    rows = RecentResults.objects.using(using)
    rows.update_or_create(pk=place, defaults={"results": {"ids": list(webhook_ids), **results}})


def _store(using: str, found: Recent) -> None:
    health = WebhookHealth.objects.using(using)
    stored = dict(health.filter(pk__in=found).values_list("pk", "recent"))
    changed = [
        WebhookHealth(webhook_id=webhook_id, recent=recent)
        for webhook_id, recent in sorted(found.items())
        if recent != stored.get(webhook_id, {})
    ]
    if changed:
        with changing(using):  # folds change the same rows
            upsert(health, changed, unique=("webhook",), update=("recent",))
