"""What is counted, as families of Prometheus metrics.

All of it is read from the database when it is asked for, so that it is right however many processes deliver, and
whichever of the web processes answers. Counters are those of the roll-up over all time and of what is not folded into
it yet; what would need a scan was counted by a job of the workers. None of it grows with what was delivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import accumulate

from django.db import router
from django.db.models import Count, Sum
from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ..database.sql import UtcNow
from ..delivery.overdue import oldest_due_at
from ..maintenance.rollups import reading
from ..maintenance.rollups.counters import Counters, Histogram
from ..models import Delivery, DeliveryAttempt, MaintenanceJob, WorkerProcess
from ..models.rollup import OUTCOMES

SEEN_WITHIN = timedelta(minutes=1)
"""A process that did not report itself for longer is taken for gone."""


class WebhooksCollector(Collector):
    """To be registered where a host has a registry of its own."""

    def describe(self) -> Iterator[Metric]:
        """Name nothing: whoever registers this is not to wait for the database."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        yield from _counted(reading.ever())
        yield from _of_jobs(timezone.now())
        yield from _of_workers()
        yield _oldest_due(timezone.now())


def _counted(counters: Counters) -> Iterator[Metric]:
    deliveries = CounterMetricFamily(
        "webhooks_deliveries", "Deliveries of events that were decided, by how they ended.", labels=["outcome"]
    )
    for outcome in OUTCOMES:
        deliveries.add_metric([outcome], counters[outcome])
    yield deliveries
    failed = CounterMetricFamily(
        "webhooks_attempts_failed", "Attempts of such deliveries that failed, by what went wrong.", labels=["result"]
    )
    for result, number in (dict.fromkeys(_failures(), 0) | dict(counters.failures)).items():
        failed.add_metric([result], number)
    yield failed
    yield _histogram("webhooks_attempt_seconds", "How long attempts took that were answered.", counters.response_times)
    yield _histogram(
        "webhooks_first_attempt_delay_seconds",
        "How long deliveries waited for their first attempt, since they were queued.",
        counters.first_attempt_delays,
    )


def _failures() -> list[str]:
    """Return the results of failed attempts; each has a sample before it first occurs."""
    results = DeliveryAttempt.Result
    return [result.value for result in results if result is not results.SUCCEEDED]


def _histogram(name: str, text: str, measured: Histogram) -> Metric:
    bounds = (*(str(bound / 1000) for bound in measured.bounds), "+Inf")
    buckets = list(zip(bounds, map(float, accumulate(measured.buckets)), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=measured.sum_ms / 1000)


def _of_jobs(now: datetime) -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "webhooks_maintenance_job_age_seconds", "Since when a job of the workers was done last.", labels=["job"]
    )
    failed = GaugeMetricFamily(
        "webhooks_maintenance_job_failed", "Whether a job of the workers failed when it was done last.", labels=["job"]
    )
    gauges: dict[str, object] = {}
    for job in MaintenanceJob.objects.all():
        if job.ended_at is not None:
            age.add_metric([job.name], _seconds(now - job.ended_at))
        failed.add_metric([job.name], bool(job.error))
        if job.name == "gauges":
            gauges = job.facts
    yield age
    yield failed
    yield from _gauged(gauges, now)


def _gauged(facts: dict[str, object], now: datetime) -> Iterator[Metric]:
    """Yield what the job counted; nothing where it has never run, since a 0 would be a guess."""
    texts = {
        "waiting": "Pending deliveries that are not in flight.",
        "due": "Waiting deliveries whose time has come. The limits of their webhooks may delay them.",
        "held": "Waiting deliveries whose webhook is paused, unverified or stopped.",
    }
    for name, text in texts.items():
        if isinstance(number := facts.get(name), int):
            yield GaugeMetricFamily(f"webhooks_deliveries_{name}", text, value=number)
    if isinstance(at := facts.get("at"), str):
        age = _seconds(now - datetime.fromisoformat(at))
        yield GaugeMetricFamily("webhooks_gauges_age_seconds", "Since when waiting, due and held were counted.", age)


def _of_workers() -> Iterator[Metric]:
    seen = WorkerProcess.objects.filter(seen_at__gte=UtcNow() - SEEN_WITHIN)
    found = seen.aggregate(number=Count("pk"), in_flight=Sum("in_flight", default=0))
    yield GaugeMetricFamily("webhooks_workers", "Processes that deliver, seen within a minute.", found["number"])
    yield GaugeMetricFamily("webhooks_deliveries_in_flight", "Deliveries that they have claimed.", found["in_flight"])


def _oldest_due(now: datetime) -> Metric:
    due_at = oldest_due_at(router.db_for_write(Delivery), now)
    late = _seconds(now - due_at) if due_at else 0.0
    return GaugeMetricFamily("webhooks_oldest_due_seconds", "For how long a delivery has been due, at most.", late)


def _seconds(span: timedelta) -> float:
    return max(0.0, span.total_seconds())
