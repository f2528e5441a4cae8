"""The metrics equal the rows of all processes, at a constant cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import CollectorRegistry

from tests.maintenance.rollups.conftest import make_tally
from webhooks_app.delivery.engine import Engine
from webhooks_app.emission import emit
from webhooks_app.maintenance.jobs import gauge
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.metrics.collector import WebhooksCollector
from webhooks_app.models import Delivery, DeliveryAttempt, MaintenanceJob, QueueEntry, Webhook, WorkerProcess
from webhooks_app.receiver.local import Answers, LocalReceiver

from .conftest import Samples

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}
COUNTED = {"succeeded_at_once": 6, "succeeded_later": 2, "given_up": 1, "failed_timeout": 8, "ms_100": 5, "ms_sum": 400}

Scrape = Callable[[], Samples]


@pytest.mark.only_on("postgresql")
@pytest.mark.django_db(transaction=True)
def test_metrics_include_deliveries_of_other_processes(
    begin: Callable[..., Any], scrape: Scrape, owner: Any, webhook: Webhook, receiver: LocalReceiver
) -> None:
    for _ in range(10):
        emit("file.deleted", DATA, owner=owner)
    Engine().run_until_idle()
    receiver.answers = Answers(statuses=(503, 200))
    for _ in range(10):
        emit("file.deleted", DATA, owner=owner)
    begin("deliver_webhooks", "--until-idle").communicate(timeout=60)

    attempts = DeliveryAttempt.objects.filter(delivery__kind="event")
    results = Counter(attempts.values_list("result", flat=True))
    at_once = attempts.filter(number=1, result="succeeded").count()
    samples = scrape()
    assert samples["webhooks_deliveries_total", "succeeded_at_once"] == at_once == 10
    assert samples["webhooks_deliveries_total", "succeeded_later"] == results["http_status"] == 10
    assert samples["webhooks_attempts_failed_total", "http_status"] == 10
    assert samples["webhooks_attempt_seconds_count",] == attempts.count() == 30
    assert samples["webhooks_first_attempt_delay_seconds_count",] == Delivery.objects.filter(kind="event").count()


@pytest.mark.django_db
def test_metrics_include_unfolded_tallies(scrape: Scrape, webhook: Webhook) -> None:
    make_tally(timezone.now(), **{webhook.pk: COUNTED})
    fold(DEFAULT_DB_ALIAS)
    make_tally(timezone.now(), **{webhook.pk: COUNTED})

    samples = scrape()

    assert samples["webhooks_deliveries_total", "succeeded_at_once"] == 12
    assert samples["webhooks_deliveries_total", "given_up"] == 2
    assert samples["webhooks_attempts_failed_total", "timeout"] == 16
    assert samples["webhooks_attempts_failed_total", "dns_error"] == 0


@pytest.mark.django_db
def test_a_histogram_is_cumulative_and_in_seconds(scrape: Scrape, webhook: Webhook) -> None:
    make_tally(timezone.now(), **{webhook.pk: {"ms_10": 1, "ms_250": 2, "ms_more": 4, "ms_sum": 90_250}})

    samples = scrape()

    bounds = ["0.01", "0.1", "0.25", "30.0", "+Inf"]
    assert [samples["webhooks_attempt_seconds_bucket", bound] for bound in bounds] == [1, 1, 3, 3, 7]
    assert samples["webhooks_attempt_seconds_sum",] == 90.25


@pytest.mark.django_db
def test_queue_metrics_are_the_counts_of_the_job(scrape: Scrape, owner: Any, webhook: Webhook) -> None:
    emit("file.deleted", DATA, owner=owner)
    QueueEntry.objects.update(due_at=timezone.now() - timedelta(seconds=90))
    job = MaintenanceJob(name="gauges", ended_at=timezone.now())
    gauge(DEFAULT_DB_ALIAS, timezone.now(), job.facts)
    job.save()

    samples = scrape()

    assert samples["webhooks_deliveries_waiting",] == samples["webhooks_deliveries_due",] == 1
    assert samples["webhooks_deliveries_held",] == 0
    assert 90 <= samples["webhooks_oldest_due_seconds",] < 150
    assert samples["webhooks_gauges_age_seconds",] < 60


class AnHourAhead(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(hours=1)


@pytest.mark.django_db
def test_ages_follow_the_database_and_not_the_web_process(
    scrape: Scrape, owner: Any, webhook: Webhook, monkeypatch: Any
) -> None:
    emit("file.deleted", DATA, owner=owner)
    MaintenanceJob.objects.create(name="fold", ended_at=timezone.now())
    monkeypatch.setattr("django.utils.timezone.datetime", AnHourAhead)

    samples = scrape()

    assert samples["webhooks_oldest_due_seconds",] < 600
    assert samples["webhooks_maintenance_job_age_seconds", "fold"] < 600


@pytest.mark.django_db
def test_metrics_without_a_count_are_omitted(scrape: Scrape) -> None:
    samples = scrape()

    assert ("webhooks_deliveries_waiting",) not in samples
    assert samples["webhooks_workers",] == samples["webhooks_oldest_due_seconds",] == 0


@pytest.mark.django_db
def test_recently_seen_workers_are_summed(scrape: Scrape) -> None:
    now = timezone.now()
    for pid, seconds_ago in enumerate((1, 2, 300), start=1):
        seen_at = now - timedelta(seconds=seconds_ago)
        WorkerProcess.objects.create(id=str(pid), pid=pid, started_at=seen_at, seen_at=seen_at, in_flight=10)
    WorkerProcess.objects.exclude(pid=1).update(lacks_descriptors=True)

    samples = scrape()

    assert samples["webhooks_workers",] == 2
    assert samples["webhooks_workers_short_of_descriptors",] == 1
    assert samples["webhooks_deliveries_in_flight",] == 20


@pytest.mark.django_db
def test_a_failed_job_is_visible(scrape: Scrape) -> None:
    ended_at = timezone.now() - timedelta(seconds=100)
    MaintenanceJob.objects.create(name="fold", ended_at=ended_at, error="DataError: too long")
    MaintenanceJob.objects.create(name="forget", ended_at=ended_at)
    MaintenanceJob.objects.create(name="beat")

    samples = scrape()

    assert (
        samples["webhooks_maintenance_job_failed", "fold"],
        samples["webhooks_maintenance_job_failed", "forget"],
    ) == (1, 0)
    assert 100 <= samples["webhooks_maintenance_job_age_seconds", "fold"] < 160
    assert ("webhooks_maintenance_job_age_seconds", "beat") not in samples


@pytest.mark.django_db
def test_the_number_of_queries_is_constant(scrape: Scrape, owner: Any, webhook: Webhook) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            scrape()
        # Without those of the clock, which repeats a slow query.
        return sum("webhooks_app" in query["sql"] for query in queries)

    def work(number: int) -> None:
        for _ in range(number):
            emit("file.deleted", DATA, owner=owner)
            make_tally(timezone.now(), **{webhook.pk: COUNTED})
        fold(DEFAULT_DB_ALIAS)
        make_tally(timezone.now(), **{webhook.pk: COUNTED})

    work(2)
    few = asked()
    work(20)

    assert asked() == few <= 6


def test_registering_the_collector_executes_no_query(django_assert_num_queries: Any, db: None) -> None:
    registry = CollectorRegistry(auto_describe=True)

    with django_assert_num_queries(0):
        registry.register(WebhooksCollector())

    assert registry.get_sample_value("webhooks_workers") == 0
