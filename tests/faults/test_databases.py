"""Databases that crash, close connections or disappear."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from django.db import OperationalError, transaction

from webhooks_app.models import Delivery, QueueEntry

from ..support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.places("postgresql-redis")]

EVERY_SERVER = pytest.mark.places("postgresql-redis", "mariadb-redis")

RECORDS_PER_SECOND = 5


def survivors(lab):
    return [worker for worker in lab.workers if worker.is_running]


@EVERY_SERVER
def test_the_database_crashes_mid_batch(lab, report):
    for temper in ("ok", "slow-1", "fails-1", "fails-2"):
        lab.webhook(temper)
    host = lab.start_host()
    lab.start_workers(2)
    host.begin(100, pause_seconds=0.05, until_committed=True)
    for _ in range(2):
        lab.wait_for_requests(len(lab.requests()) + 30)
        lab.database.crash()
    lab.take_report(host)

    counts = lab.settle()
    report(counts)
    assert len(survivors(lab)) == 2
    assert len(lab.committed) == 100
    assert set(lab.results()) == {"succeeded"}


@pytest.mark.places("mariadb-redis")
def test_deadlocks_lose_and_double_nothing(lab, report):
    """Another program locks the rows of deliveries in the opposite order, until the server ends transactions."""
    for temper in ("ok", "fails-1"):
        lab.webhook(temper)
    host = lab.start_host()
    lab.start_workers(2)
    before = lab.database.deadlocks()
    host.begin(200, pause_seconds=0.05, until_committed=True)
    wait_until(lambda: lock_backwards() or lab.database.deadlocks() >= before + 3, lab.explain)
    lab.take_report(host)

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 0
    assert len(survivors(lab)) == 2
    assert lab.results() == {"succeeded": 400}


def lock_backwards():
    """Lock queue entries one by one, newest first, and then their deliveries."""
    with suppress(OperationalError), transaction.atomic():
        for key in QueueEntry.objects.order_by("-pk").values_list("pk", flat=True)[:20]:
            QueueEntry.objects.filter(pk=key).select_for_update().first()
            Delivery.objects.filter(pk=key).select_for_update().first()


@EVERY_SERVER
def test_connections_are_terminated_every_half_second(lab, report):
    for temper in ("ok", "slow-1", "fails-1", "never"):
        lab.webhook(temper)
    host = lab.start_host()
    lab.start_workers(2)
    host.begin(100, pause_seconds=0.1, until_committed=True)
    for _ in range(20):
        lab.database.terminate_connections()
        time.sleep(0.5)
    lab.take_report(host)

    report(lab.settle())
    assert len(survivors(lab)) == 2


def test_workers_wait_for_the_database_quietly(lab, report):
    lab.webhook("ok")
    lab.webhook("slow-1")
    host = lab.start_host()
    worker = lab.start_worker()
    lab.emit(host, 5)
    lab.wait_for_requests(10)

    before, began_at = len(worker.records), time.monotonic()
    with lab.database.away():
        wait_until(lambda: "Waiting for the database" in worker.output, lab.explain)
        time.sleep(max(0, began_at + 8 - time.monotonic()))
        said = worker.records[before:]
        seconds = time.monotonic() - began_at
    lab.emit(host, 5, until_committed=True)

    report(lab.settle())
    assert sum("Waiting for the database" in line for line in said) == 1
    assert len(said) / seconds < RECORDS_PER_SECOND, said
    assert lab.results() == {"succeeded": 20}


def test_the_database_hangs(lab, report):
    """A frozen server closes no connections, and nothing is sent twice when it continues."""
    lab.webhook("ok")
    lab.webhook("slow-1")
    host = lab.start_host()
    lab.start_workers(2)
    host.begin(60, pause_seconds=0.05, until_committed=True)
    lab.wait_for_requests(20)
    with lab.database.frozen():
        time.sleep(lab.settings["WEBHOOKS_TIMEOUT_SECONDS"] + 1)
    lab.take_report(host)

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 0
    assert set(lab.results()) == {"succeeded"}


def test_the_database_is_away_for_longer_than_a_lease(lab, report):
    """The first worker to reconnect waits for the other to record its results."""
    for _ in range(2):
        lab.webhook("slow-1")
    host = lab.start_host()
    lab.start_workers(2)
    lab.emit(host, 15)
    lab.wait_for_requests(30)

    with lab.database.away():
        time.sleep(lab.settings["WEBHOOKS_LEASE_SECONDS"] + 1)

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 0
    assert lab.results() == {"succeeded": 30}
