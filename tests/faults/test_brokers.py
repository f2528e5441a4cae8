"""Brokers that are emptied, refuse, hang or disappear. Nothing depends on a message."""

from __future__ import annotations

import time

import pytest

from webhooks_app.models import Delivery

from ..support.servers.process import free_port
from ..support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

SERVERS = pytest.mark.places("postgresql-redis", "postgresql-rabbitmq")
EMIT_SECONDS = 1
RECORDS_PER_SECOND = 5
"""The permitted log lines of a waiting process. Celery logs the traceback of a broken connection once."""


@pytest.mark.places("postgresql-rabbitmq", "sqlite-embedded")
def test_messages_are_lost_before_any_worker_runs(lab, report):
    lab.webhook("ok")
    host = lab.start_host()
    lab.emit(host, 10)

    lab.broker.empty()
    lab.start_worker()

    report(lab.settle())
    assert lab.results() == {"succeeded": 10}


def test_messages_are_lost_with_deliveries_pending(lab, report):
    lab.webhook("ok")
    lab.webhook("fails-2")
    host = lab.start_host()
    lab.start_worker()
    host.begin(40, pause_seconds=0.1)
    for _ in range(5):
        lab.wait_for_requests(len(lab.requests()) + 5)
        lab.broker.empty()
    lab.take_report(host)

    report(lab.settle())
    assert lab.results() == {"succeeded": 80}


@SERVERS
def test_the_broker_refuses_at_emit(lab, report):
    lab.webhook("ok")
    refused = lab.broker.url.replace(lab.broker.url.rpartition(":")[2].split("/")[0], str(free_port()))
    host = lab.start_host(broker_url=refused)
    lab.start_worker()

    emitted = lab.emit(host, 20)

    assert emitted["errors"] == []
    assert emitted["slowest_seconds"] < EMIT_SECONDS
    report(lab.settle())
    assert lab.results() == {"succeeded": 20}


@SERVERS
@pytest.mark.parametrize("used", [pytest.param(False, id="before the first message"), pytest.param(True, id="later")])
def test_the_broker_hangs_at_emit(lab, report, used):
    lab.webhook("ok")
    host = lab.start_host()
    if used:
        lab.emit(host, 1)
        time.sleep(0.2)  # Longer than wake-ups are combined, so that the next emit sends one.

    with lab.broker.frozen():
        emitted = lab.emit(host, 20)

    assert emitted["errors"] == []
    assert emitted["slowest_seconds"] < EMIT_SECONDS
    lab.start_worker()
    report(lab.settle())
    assert lab.results() == {"succeeded": 20 + used}


@SERVERS
def test_the_broker_hangs_under_a_worker(lab, report):
    """A running worker finds due deliveries without a broker."""
    lab.webhook("fails-1")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 5)
    lab.wait_for_requests(5)

    with lab.broker.frozen():
        emitted = lab.emit(host, 20)
        wait_until(lambda: lab.results() == {"succeeded": 25}, lab.explain)

    assert emitted["slowest_seconds"] < EMIT_SECONDS
    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 0


@SERVERS
def test_the_broker_is_restarted_and_workers_wait_quietly(lab, report):
    webhook = lab.webhook("fails-1")
    host = lab.start_host()
    worker = lab.start_worker()
    beat = lab.start_beat()
    lab.emit(host, 5)
    lab.wait_for_requests(5)

    said, began_at = len(worker.records) + len(beat.records), time.monotonic()
    with lab.broker.away():
        emitted = lab.emit(host, 20)
        time.sleep(max(0, began_at + 8 - time.monotonic()))
        rate = (len(worker.records) + len(beat.records) - said) / (time.monotonic() - began_at)
    lab.emit(host, 20)

    counts = lab.settle()
    report(counts)
    assert emitted["slowest_seconds"] < EMIT_SECONDS
    assert len(lab.requests(webhook)) == 90
    assert Delivery.objects.filter(state="succeeded", kind="event").count() == 45
    assert worker.is_running
    assert rate < RECORDS_PER_SECOND, worker.output[-3000:]
