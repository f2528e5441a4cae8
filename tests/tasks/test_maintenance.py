"""Maintenance in the processes of a Celery worker."""

from __future__ import annotations

import pytest

from webhooks_app import emit
from webhooks_app.models import MaintenanceJob, Rollup, WorkerProcess

from ..support.rows import EVENT_TYPE, make_webhook
from ..support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]


def has_counted():
    return Rollup.objects.filter(resolution="ever", counts__succeeded_at_once=1).exists()


def test_a_worker_reports_itself_and_beat_and_counts_deliveries(alice, broker_url, start_worker, start_beat, nginx):
    worker = start_worker(broker_url)
    start_beat(broker_url)
    make_webhook(alice, url=f"{nginx.url}/upkeep")
    emit(EVENT_TYPE, {"error": "No outline"}, owner=alice)

    wait_until(has_counted)
    wait_until(lambda: MaintenanceJob.objects.filter(name="beat", ended_at__isnull=False).exists())
    assert WorkerProcess.objects.exists()

    worker.terminate()
    worker.wait(60)
    wait_until(lambda: not WorkerProcess.objects.exists(), lambda: list(WorkerProcess.objects.values()))
