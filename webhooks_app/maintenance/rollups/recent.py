"""Recent results of each webhook, summed up from its roll-ups, so that thousands of webhooks can be sorted at once."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db.models import Count

from ...database.sql import upsert
from ...models import Delivery, QueueEntry, RecentResults, Rollup, WebhookHealth
from ...models.health import Thresholds, Trouble
from ...models.rollup import EVERY_WEBHOOK, FAILED, OUTCOMES, RESPONSE_TIME
from ...protocol.ids import first_id_at
from ...replays.missed import failed, still_missed
from .folding import changing, names_in, sums_by
from .reading import Counters, Window, spans

SPANS = (Window.HOUR, Window.DAY, Window.WEEK)
QUEUED, MISSED = "queued", "missed"
"""The names of the number of queued deliveries, and of the missed events of the last day, beside those of the spans."""

MOST_MISSED = 100
"""Given-up deliveries of a webhook that are examined. With more, ``MISSED`` means at least."""

DAY = timedelta(days=1)

Z = 1.96
"""Quantile of the normal distribution for a confidence of 95 %."""


def lower_bound(part: int, whole: int) -> float:
    """Return the lower bound of Wilson's score interval: the lower end of the 95 % confidence interval."""
    share, z2 = part / whole, Z * Z
    margin = Z * math.sqrt((share * (1 - share) + z2 / (4 * whole)) / whole)
    return max(0.0, (share + z2 / (2 * whole) - margin) / (1 + z2 / whole))


def figures(counters: Counters) -> dict[str, Any]:
    """Return the figures of one span by name: of deliveries, of requests, and ``p50`` and ``p95`` in ms.

    ``worst`` is the lower bound of the share of failed requests.
    """
    times = counters.response_times
    found: dict[str, Any] = {"finished": counters.finished, "given_up": counters.given_up}
    if requests := counters.attempts:
        failed = requests - counters.succeeded
        found |= {"requests": requests, "failed": failed, "worst": round(lower_bound(failed, requests), 4)}
    if times.count:
        found |= {name: round(times.percentile(share) or 0) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return found


def trouble_of(recent: Mapping[str, Any]) -> str:
    """Return what the recent results of a webhook show, as a value of ``Trouble`` or ""."""
    limits = Thresholds.configured()
    hour: Mapping[str, int] = recent.get(Window.HOUR.value, {})
    requests = hour.get("requests", 0)
    if recent.get(MISSED) or limits.are_many_failed(hour.get("failed", 0), requests):
        return Trouble.PARTLY.value
    is_slow = requests >= limits.slow_requests and hour.get("p95", 0) > 1000 * limits.slow_seconds
    return Trouble.SLOW.value if is_slow else ""


Recent: TypeAlias = dict[str, dict[str, Any]]
"""The recent results of webhooks: the figures of each span, and the number of queued deliveries."""


def sum_up(using: str, webhook_ids: Sequence[str], now: datetime) -> Recent:
    """Store the recent results of these webhooks, and the numbers of their queued deliveries. Return them."""
    found: Recent = {webhook_id: {} for webhook_id in webhook_ids}
    for window in SPANS:
        rows = Rollup.objects.using(using).filter(spans(window, now))
        names = names_in(rows.filter(webhook_id=EVERY_WEBHOOK))
        counted = [name for name in names if name.startswith((*OUTCOMES, FAILED, RESPONSE_TIME))]
        for webhook_id, sums in sums_by("webhook_id", rows.filter(webhook_id__in=webhook_ids), counted).items():
            found[webhook_id][window.value] = figures(Counters(sums))
    queued = QueueEntry.objects.using(using).filter(webhook__in=webhook_ids).order_by()
    for webhook_id, number in queued.values_list("webhook").annotate(number=Count("pk")):
        found[webhook_id][QUEUED] = number
    lost = {pk for pk, recent in found.items() if recent.get(Window.DAY.value, {}).get("given_up")}
    # While a receiver fails, nobody asks for their number, and in an outage they are many.
    failing = WebhookHealth.objects.using(using).failing(now).filter(pk__in=lost).values_list("pk", flat=True)
    for webhook_id in sorted(lost.difference(failing)):
        if number := _missed(using, webhook_id, now - DAY):
            found[webhook_id][MISSED] = number
    _store(using, found)
    return found


def _missed(using: str, webhook_id: str, since: datetime) -> int:
    """Return the number of events that are missed, among those that were queued."""
    deliveries = Delivery.objects.using(using)
    recent = failed(deliveries.filter(webhook=webhook_id, pk__gte=first_id_at("dlv", since))).order_by("-pk")
    latest = (recent.in_state(state).values_list("pk", flat=True)[:MOST_MISSED] for state in Delivery.LISTED_STATES)
    lost = still_missed(deliveries.filter(pk__in=[pk for ids in latest for pk in ids]))
    return int(lost.order_by().aggregate(number=Count("event", distinct=True))["number"])


def pack(using: str, place: int, webhook_ids: Sequence[str], found: Recent) -> None:
    """Store the recent results of these webhooks once more, together in the row of this place."""
    parts = (*(window.value for window in SPANS), QUEUED)
    results = {part: {pk: recent[part] for pk, recent in found.items() if part in recent} for part in parts}
    rows = RecentResults.objects.using(using)
    rows.update_or_create(pk=place, defaults={"results": {"ids": list(webhook_ids), **results}})


def _store(using: str, found: Recent) -> None:
    health = WebhookHealth.objects.using(using)
    stored = {pk: tuple(kept) for pk, *kept in health.filter(pk__in=found).values_list("pk", "recent", "trouble")}
    judged = {webhook_id: (recent, trouble_of(recent)) for webhook_id, recent in sorted(found.items())}
    changed = [
        WebhookHealth(webhook_id=webhook_id, recent=recent, trouble=trouble)
        for webhook_id, (recent, trouble) in judged.items()
        if (recent, trouble) != stored.get(webhook_id, ({}, ""))
    ]
    if changed:
        with changing(using):  # folds change the same rows
            upsert(health, changed, unique=("webhook",), update=("recent", "trouble"))


def restless(using: str, webhook_ids: Collection[str]) -> list[str]:
    """Return which of these webhooks are in trouble, in order. Their results are worth summing up soon."""
    rows = WebhookHealth.objects.using(using).filter(pk__in=webhook_ids).exclude(trouble="")
    return sorted(rows.values_list("pk", flat=True))
