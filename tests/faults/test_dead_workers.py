"""Workers that die while using a webhook's full limit. Others notice within seconds, without mistaking live workers."""

from __future__ import annotations

import time

import pytest

from webhooks_app.models import DeliveryAttempt, WorkerSession

from ..support.waiting import wait_until
from .lab import asked
from .test_workers import freeze_between_writes, results

pytestmark = pytest.mark.timeout(300)

SETTINGS = {"WEBHOOKS_TIMEOUT_SECONDS": 120, "WEBHOOKS_LEASE_SECONDS": 250}
PRESENT_SECONDS = 17
"""How long a worker must run before it declares others dead, with a margin."""

WITHIN_SECONDS = {"postgresql": 14, "sqlite": 35}
"""More than the documented 5 and 15 s. On PostgreSQL, heartbeats alone would need longer."""


@pytest.fixture
def lab(make_lab):
    with make_lab(**SETTINGS) as lab:
        yield lab


@pytest.mark.places("postgresql-redis", "sqlite-embedded")
def test_a_webhook_at_its_limit_is_served_seconds_after_its_worker_died(lab, report, place):
    held = lab.webhook("held", max_in_flight=2)
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 2)
    lab.wait_for_requests(2, held)
    lab.start_worker()
    wait_until(lambda: WorkerSession.objects.count() == 2, lab.explain)
    lab.emit(host, 1)
    time.sleep(PRESENT_SECONDS)
    assert len(lab.requests(held)) == 2

    killed_at = time.monotonic()
    lab.kill_worker()
    lab.wait_for_requests(3, held)

    assert time.monotonic() - killed_at < WITHIN_SECONDS[place[0]]
    lab.release_requests()
    report(lab.settle())
    assert sorted(results()) == ["succeeded"] * 3 + ["worker_lost"] * 2


@pytest.mark.places("postgresql-redis")
def test_a_frozen_worker_keeps_its_lease(lab, report):
    slow = lab.webhook("slow-1", max_in_flight=1)
    host = lab.start_host()
    frozen = lab.start_worker()
    lab.emit(host, 1)
    lab.wait_for_requests(1, slow)
    freeze_between_writes(frozen)
    lab.start_worker()
    time.sleep(PRESENT_SECONDS + 8)

    assert results() == []
    assert len(lab.requests(slow)) == 1
    frozen.thaw()

    report(lab.settle())
    assert "worker_lost" not in results()


@pytest.mark.places("postgresql-redis")
def test_a_restart_of_the_database_loses_no_worker(lab, report):
    for temper in ("slow-1", "slow-4"):
        lab.webhook(temper)
    host = lab.start_host()
    lab.start_workers(2)
    time.sleep(PRESENT_SECONDS)
    host.begin(60, pause_seconds=0.1, until_committed=True)
    lab.wait_for_requests(20)
    lab.database.crash()
    lab.take_report(host)
    wait_until(lambda: asked(DeliveryAttempt.objects.exists))
    time.sleep(PRESENT_SECONDS)

    report(lab.settle())
    assert "worker_lost" not in results()
