"""Concurrent evaluations, folds and changes of a webhook."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections

from webhooks_app.maintenance.health import take_in, watch
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import Webhook

from ...support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def in_thread(work):
    def run():
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.fixture
def overdue(days):
    """A webhook due for warning and disabling at the next evaluation."""
    for _ in range(12):
        days.give_up()
        days.clock.advance(7200)
    fold("default", also=lambda folded: take_in("default", folded))
    days.clock.advance(86_400 * 6)
    return days


def test_concurrent_evaluations_report_once(overdue, signals):
    ready = threading.Barrier(3)

    def judge():
        ready.wait()
        watch("default", overdue.clock())

    for thread in [in_thread(judge) for _ in range(3)]:
        thread.join()

    assert [name for name, _ in signals] == ["warning", "disabled"]


def is_somebody_waiting():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return cursor.fetchone()[0] > 0


@pytest.mark.only_on("postgresql")
def test_a_concurrently_folded_success_prevents_disabling(overdue, signals):
    overdue.succeed()
    took_in, go_on = threading.Event(), threading.Event()

    def hold(folded):
        take_in("default", folded)
        took_in.set()
        go_on.wait(30)

    folding = in_thread(lambda: fold("default", also=hold))
    assert took_in.wait(30)
    judging = in_thread(lambda: watch("default", overdue.clock()))
    wait_until(is_somebody_waiting)
    go_on.set()
    folding.join()
    judging.join()

    assert Webhook.objects.get().status == "active"
    assert signals == []
