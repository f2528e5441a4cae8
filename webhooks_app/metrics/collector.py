"""Collector of the Prometheus metrics.

Every value is read from the database on request, so that it covers all workers and does not depend on the answering web
process. Counters come from the roll-up of all time and the tallies not yet folded into it. Values that need a table
scan are counted by a maintenance job. The cost of a request grows with the number of webhooks with pending deliveries,
not with the number of deliveries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import accumulate

from django.db import router
from django.db.models import Count, Q, Sum
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ..database.clock import DatabaseClock
from ..delivery.sql import oldest_due_at
from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Counters, Histogram
from ..models import Delivery, DeliveryAttempt, MaintenanceJob, WorkerProcess
from ..models.rollup import OUTCOMES
from ..models.standing import Standing

__all__ = ["WebhooksCollector"]


class WebhooksCollector(Collector):
    """Collector of all metrics, for projects with their own registry."""

    def describe(self) -> Iterator[Metric]:
        """Describe nothing, so that registering the collector needs no database query."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        now = DatabaseClock(router.db_for_write(Delivery))()
        yield from _counted(reading.ever())
        yield from _of_jobs(now)
        yield from _of_workers()
        yield _oldest_due(now)


def _counted(counters: Counters) -> Iterator[Metric]:
    deliveries = CounterMetricFamily(
        "webhooks_deliveries", "Finished deliveries of events, by outcome.", labels=["outcome"]
    )
    for outcome in OUTCOMES:
        deliveries.add_metric([outcome], counters[outcome])
    yield deliveries
    failed = CounterMetricFamily(
        "webhooks_attempts_failed", "Failed attempts of event deliveries, by result.", labels=["result"]
    )
    for result, number in (dict.fromkeys(_failures(), 0) | dict(counters.failures)).items():
        failed.add_metric([result], number)
    yield failed
    yield _histogram("webhooks_attempt_seconds", "Duration of answered attempts.", counters.response_times)
    yield _histogram(
        "webhooks_first_attempt_delay_seconds",
        "Time from queueing to the first attempt of deliveries.",
        counters.first_attempt_delays,
    )


def _failures() -> list[str]:
    """Return the results of failed attempts. Each has a sample even before it first occurs."""
    results = DeliveryAttempt.Result
    return [result.value for result in results if result is not results.SUCCEEDED]


def _histogram(name: str, text: str, measured: Histogram) -> Metric:
    bounds = (*(str(bound / 1000) for bound in measured.bounds), "+Inf")
    buckets = list(zip(bounds, map(float, accumulate(measured.buckets)), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=measured.sum_ms / 1000)


def _of_jobs(now: datetime) -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "webhooks_maintenance_job_age_seconds", "Time since the last run of a maintenance job.", labels=["name"]
    )
    failed = GaugeMetricFamily(
        "webhooks_maintenance_job_failed", "1 if the last run of a maintenance job failed.", labels=["name"]
    )
    gauges: dict[str, object] = {}
    standings: dict[str, int] = {}
    for job in MaintenanceJob.objects.all():
        if job.ended_at is not None:
            age.add_metric([job.name], _seconds(now - job.ended_at))
        failed.add_metric([job.name], bool(job.error))
        if job.name == "gauges":
            gauges = job.facts
        if job.name == "recent":
            standings = job.facts.get("standings", {})
    yield age
    yield failed
    yield from _gauged(gauges, now)
    if standings:
        yield _judged(standings)


def _judged(standings: Mapping[str, int]) -> Metric:
    """Return the numbers of webhooks in the last complete round of the job that judges them."""
    webhooks = GaugeMetricFamily(
        "webhooks_webhooks", "Webhooks by what their receivers do, by their requests.", labels=["health"]
    )
    for standing in Standing:
        webhooks.add_metric([standing.value], standings.get(standing.value, 0))
    return webhooks


def _gauged(facts: dict[str, object], now: datetime) -> Iterator[Metric]:
    """Yield the job's counts, or nothing if it has never run, because 0 would be a guess."""
    texts = {
        "webhooks_deliveries_waiting": "Pending deliveries that are not in flight.",
        "webhooks_deliveries_due": "Waiting deliveries that are due. The limits of their webhooks may delay them.",
        "webhooks_deliveries_held": "Waiting deliveries whose webhook is paused, unverified or stopped.",
    }
    for name, text in texts.items():
        if isinstance(number := facts.get(name.rpartition("_")[2]), int):
            yield GaugeMetricFamily(name, text, value=number)
    if isinstance(at := facts.get("at"), str):
        age = _seconds(now - datetime.fromisoformat(at))
        yield GaugeMetricFamily(
            "webhooks_gauges_age_seconds", "Age of the counts of waiting, due and held deliveries.", age
        )


def _of_workers() -> Iterator[Metric]:
    short = Count("pk", filter=Q(lacks_descriptors=True))
    running = WorkerProcess.objects.running()
    found = running.aggregate(number=Count("pk"), in_flight=Sum("in_flight", default=0), short=short)
    yield GaugeMetricFamily("webhooks_workers", "Worker processes seen within a minute.", found["number"])
    yield GaugeMetricFamily(
        "webhooks_workers_short_of_descriptors", "Those of them that lack file descriptors.", found["short"]
    )
    yield GaugeMetricFamily("webhooks_deliveries_in_flight", "Deliveries claimed by these workers.", found["in_flight"])


def _oldest_due(now: datetime) -> Metric:
    due_at = oldest_due_at(router.db_for_write(Delivery), now)
    late = _seconds(now - due_at) if due_at else 0.0
    return GaugeMetricFamily("webhooks_oldest_due_seconds", "Delay of the most overdue delivery.", late)


def _seconds(span: timedelta) -> float:
    return max(0.0, span.total_seconds())
