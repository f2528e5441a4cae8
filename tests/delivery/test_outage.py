"""Outages of the database: tries at growing intervals, without forgetting a wake-up."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection

from webhooks_app.delivery.liveness import Outage
from webhooks_app.delivery.worker import DeliveryWorker

from ..support.rows import emit_one

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def open_connection(monkeypatch):
    monkeypatch.setattr(connection, "close", lambda: None)


def gone(*args, **options):
    raise OperationalError("gone")


def test_tries_are_repeated_at_growing_intervals(clock):
    outage = Outage(clock, "default")
    waits = []
    for _ in range(8):
        outage.began(OperationalError("gone"))
        waits.append(outage.seconds_to_ask())

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    outage.ended()
    assert outage.may_ask


def test_an_outage_is_reported_once_if_both_sides_fail_at_the_same_time(clock, monkeypatch):
    outage = Outage(clock, "default")
    reports = []

    def warning(*args):
        reports.append(args)
        if len(reports) == 1:
            outage.began(OperationalError("gone"), "results")  # by the other thread

    monkeypatch.setattr("webhooks_app.delivery.liveness.logger.warning", warning)
    outage.began(OperationalError("gone"), "claims")

    assert len(reports) == 1


def test_a_wake_up_during_a_lost_connection_is_not_forgotten(clock, monkeypatch):
    worker = DeliveryWorker(using="default", clock=clock, window=8)
    worker.turn(lambda _: False)
    worker.wake()
    with monkeypatch.context() as patch:
        patch.setattr(worker.queue, "look", gone)
        worker.turn(lambda _: False)
    assert not worker.outage.may_ask

    clock.advance(worker.pause_seconds())

    assert worker.outage.may_ask
    assert worker.pause_seconds() == 0


def test_a_success_of_one_side_does_not_end_the_outage_of_the_other(clock):
    outage = Outage(clock, "default")
    outage.began(OperationalError("disk full"), "results")
    clock.advance(outage.seconds_to_ask())

    outage.ended("claims")
    assert outage.is_open
    assert outage.has_failed("results")

    outage.ended("results")
    assert not outage.is_open


def test_nothing_is_claimed_while_results_cannot_be_written(alice, webhook, clock, monkeypatch):
    worker = DeliveryWorker(using="default", clock=clock, window=8)
    monkeypatch.setattr(worker.recorder, "turn", gone)
    worker.turn(lambda _: False)
    emit_one(alice)

    for _ in range(4):
        clock.advance(worker.pause_seconds())
        worker.claim_turn(lambda _: False)  # of its own thread, and now first to use the database again
        assert not worker.has_claims
        worker.record_turn()

    monkeypatch.undo()
    clock.advance(worker.pause_seconds())
    worker.record_turn()
    worker.outage.ended("results")
    worker.claim_turn(lambda _: False)
    assert worker.has_claims
