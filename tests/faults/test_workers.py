"""Workers that are killed, frozen, stopped and replaced."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest
from django.db import connection

from webhooks_app.models import DeliveryAttempt

from ..support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


def results():
    """Return the results of the attempts of events, without notices."""
    return list(
        DeliveryAttempt.objects.filter(delivery__kind="event").order_by("number").values_list("result", flat=True)
    )


def freeze_between_writes(worker):
    """Freeze a worker that is not writing. On SQLite it would otherwise block all others."""
    worker.freeze()
    while connection.vendor == "sqlite" and is_locked(connection.settings_dict["NAME"]):
        worker.thaw()
        time.sleep(0.02)
        worker.freeze()


def is_locked(path):
    with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


@pytest.mark.places("postgresql-redis", "mariadb-redis", "sqlite-embedded")
def test_a_worker_is_killed_mid_request(lab, report):
    slow = lab.webhook("slow-1")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 1)
    lab.wait_for_requests(1, slow)

    lab.kill_worker()
    lab.start_worker()

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 1
    assert results() == ["worker_lost", "succeeded"]


@pytest.mark.places("postgresql-redis", "mariadb-redis", "sqlite-embedded")
def test_a_worker_is_killed_between_the_answer_and_the_write(lab, report):
    webhook = lab.webhook("slow-0.5")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 1)
    lab.wait_for_requests(1)
    with lab.database.writes_held(lab.url):
        wait_until(lambda: "status" in lab.requests(webhook)[0])
        lab.kill_worker()
    lab.start_worker()

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 1
    assert lab.results() == {"succeeded": 1}


@pytest.mark.places("postgresql-rabbitmq", "sqlite-embedded")
def test_workers_are_killed_repeatedly_with_many_requests_in_flight(lab, report):
    for temper in ("slow-1", "fails-1", "ok", "never"):
        lab.webhook(temper)
    host = lab.start_host()
    lab.start_workers(2)
    for _ in range(3):
        host.begin(20, pause_seconds=0.1)
        lab.wait_for_requests(len(lab.requests()) + 10)
        lab.kill_worker()
        lab.start_worker()
        lab.take_report(host)

    report(lab.settle())


@pytest.mark.places("postgresql-redis")
def test_the_process_that_delivers_is_killed_in_its_pool(lab, report):
    """The kernel kills a process when memory is exhausted. Celery itself survives. No message wakes the engine."""
    slow = lab.webhook("slow-1")
    host = lab.start_host()
    worker = lab.start_worker()
    lab.emit(host, 1)
    lab.wait_for_requests(1, slow)

    (child,) = subprocess.run(["pgrep", "-P", str(worker.popen.pid)], capture_output=True, check=True).stdout.split()
    os.kill(int(child), signal.SIGKILL)
    lab.kills += 1

    report(lab.settle())
    assert lab.results() == {"succeeded": 1}


@pytest.mark.places("postgresql-redis")
def test_a_worker_of_another_queue_delivers_nothing(lab, report):
    webhook = lab.webhook("ok")
    host = lab.start_host()
    lab.start_worker("--queues", "reports")
    lab.emit(host, 3)

    time.sleep(3)  # Longer than a sweep.
    assert lab.requests(webhook) == []
    lab.start_worker()

    report(lab.settle())
    assert lab.results() == {"succeeded": 3}


@pytest.mark.places("postgresql-redis", "sqlite-embedded")
def test_a_worker_that_slept_too_long_records_nothing(lab, report):
    webhook = lab.webhook("slow-1")
    host = lab.start_host()
    frozen = lab.start_worker()
    lab.emit(host, 1)
    lab.wait_for_requests(1)
    freeze_between_writes(frozen)
    lab.kills += 1
    lab.start_worker()
    wait_until(lambda: len(lab.requests(webhook)) == 2)
    frozen.thaw()

    report(lab.settle())
    assert results() == ["worker_lost", "succeeded"]


@pytest.mark.places("postgresql-redis")
def test_a_worker_is_replaced_with_requests_in_flight(lab, report):
    lab.webhook("slow-1")
    host = lab.start_host()
    old = lab.start_worker()
    lab.emit(host, 10)
    lab.wait_for_requests(10)

    old.request_stop()
    lab.start_worker()

    counts = lab.settle()
    report(counts)
    assert old.popen.wait(30) == 0
    assert len(lab.requests()) == 10


@pytest.mark.places("postgresql-rabbitmq")
def test_rolling_restarts(lab, report):
    """Three consecutive deployments. Each worker is stopped when its successor is ready."""
    for temper in ("ok", "slow-1", "fails-1"):
        lab.webhook(temper)
    host = lab.start_host()
    lab.start_worker()
    host.begin(100, pause_seconds=0.1)
    for _ in range(3):
        lab.start_worker()
        lab.workers.pop(0).request_stop()
    lab.take_report(host)

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 0
    assert lab.results() == {"succeeded": 300}


@pytest.mark.places("postgresql-redis")
def test_three_workers_and_two_beats(lab, report):
    for temper in ("ok", "slow-0.2", "fails-2"):
        lab.webhook(temper)
    host = lab.start_host()
    lab.start_beat()
    lab.start_beat()
    lab.start_workers(3)
    lab.emit(host, 100)

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 0
    assert lab.results() == {"succeeded": 300}
    assert len(lab.requests()) == 500


@pytest.mark.places("postgresql-redis")
def test_rolled_back_events_are_never_sent(lab, report):
    lab.webhook("ok")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 10, ending="rollback")
    lab.emit(host, 10, ending="savepoint")
    lab.emit(host, 10)

    report(lab.settle())
    assert len(lab.rolled_back) == 20
    assert lab.results() == {"succeeded": 20}
