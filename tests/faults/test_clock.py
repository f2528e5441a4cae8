"""Jumps of the clock: all recorded times are an hour earlier or later."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from webhooks_app.models import Delivery

from ..support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.places("postgresql-redis")]

HOUR = timedelta(hours=1)


def wait_between_attempts(lab, number):
    waiting = Delivery.objects.filter(kind="event", attempt_count=2, queue_entry__claimed_at=None)
    wait_until(lambda: waiting.count() == number, lab.explain)


def all_final():
    return not Delivery.objects.pending().exists()


def test_the_clock_jumps_ahead_between_attempts(lab, report):
    webhook = lab.webhook("fails-2")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 10)
    wait_between_attempts(lab, 10)

    lab.move_clock(HOUR)

    wait_until(all_final, lab.explain)
    counts = lab.count()
    report(counts)
    assert counts.duplicates == 0
    assert len(lab.requests(webhook)) == 30


def test_the_clock_jumps_back_and_is_set_right(lab, report):
    """Deliveries wait according to the clock, and none is lost or duplicated by its correction."""
    webhook = lab.webhook("fails-2")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 10)
    wait_between_attempts(lab, 10)

    lab.move_clock(-HOUR)
    time.sleep(6)
    assert len(lab.requests(webhook)) == 20
    lab.move_clock(HOUR)

    counts = lab.settle()
    report(counts)
    assert counts.duplicates == 0
    assert lab.results() == {"succeeded": 10}


def test_the_clock_jumps_ahead_during_attempts(lab, report):
    webhook = lab.webhook("slow-1")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 10)
    lab.wait_for_requests(10)

    lab.move_clock(HOUR)

    wait_until(all_final, lab.explain)
    counts = lab.count()
    report(counts)
    assert counts.duplicates == 0
    assert len(lab.requests(webhook)) == 10
