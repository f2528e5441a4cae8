"""Concurrent claiming and recording by the worker."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import override_settings

from webhooks_app.conf import settings
from webhooks_app.delivery import recording
from webhooks_app.delivery.liveness import LOOK_SECONDS
from webhooks_app.delivery.recording import record
from webhooks_app.delivery.sending import LOST_SPREAD, finish, request_for
from webhooks_app.delivery.sql import sql_for
from webhooks_app.delivery.worker import (
    COLLECT_SECONDS,
    PAUSE_SECONDS_EACH,
    STOP_GRACE_SECONDS,
    DeliveryWorker,
    Turn,
    WorkerThreads,
)
from webhooks_app.models import DeliveryAttempt, QueueEntry, QueueLane
from webhooks_app.signals import attempt_made, deliveries_created
from webhooks_app.transport import Exchange, Response

from ..support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db

WINDOW = 32
"""One webhook can use a quarter of it."""


def never(worker):
    return False


def gone(*args, **options):
    raise OperationalError("server closed the connection unexpectedly\n\tThis probably means that it crashed.\n")


def success(claim, clock):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    return finish(Exchange(request=request, duration_seconds=0.1, response=Response(status=200)))


@pytest.fixture
def worker(clock):
    return DeliveryWorker(using="default", clock=clock, window=WINDOW)


@pytest.fixture
def results(alice, webhook, clock, worker):
    """Eight finished attempts, of claims from the worker."""
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    for _ in range(8):
        emit_one(alice)
    worker.turn(never)
    return [success(claim, clock) for claim in worker.take()]


def test_half_of_the_open_claims_are_recorded_without_waiting(results, worker):
    worker.put(results[:3])
    worker.turn(never)
    assert DeliveryAttempt.objects.count() == 0

    worker.put(results[3:4])
    worker.turn(never)

    assert DeliveryAttempt.objects.count() == 4


def test_a_smaller_batch_is_recorded_after_20_ms(results, worker, clock):
    worker.put(results[:1])
    worker.turn(never)
    assert worker.seconds_to_record() == pytest.approx(0.02, abs=0.001)

    clock.advance(0.021)
    worker.turn(never)

    assert DeliveryAttempt.objects.count() == 1


def test_results_added_during_recording_do_not_wait_for_a_sweep(results, worker):
    worker.put(results[:2])
    worker.turn(never)
    late = iter([results[4:5]])
    attempt_made.connect(put_late := lambda **kwargs: worker.put(next(late, [])))

    worker.put(results[2:4])
    worker.turn(never)
    attempt_made.disconnect(put_late)

    assert worker.pause_seconds() == 0


def test_a_stopped_worker_releases_claims_not_taken(alice, webhook, worker):
    emit_one(alice)
    worker.turn(never)

    worker.stop()
    worker.turn(never)

    assert worker.is_over
    delivery = webhook.deliveries.get()
    assert (delivery.entry.attempt, delivery.claimed_at) == (0, None)


def test_a_stopped_worker_wakes_others_for_the_next_ordered_delivery(
    alice, clock, worker, django_capture_on_commit_callbacks
):
    make_webhook(alice, order="webhook")
    emit_one(alice)
    emit_one(alice)
    worker.turn(never)
    finished = [success(claim, clock) for claim in worker.take()]
    woken = []
    deliveries_created.connect(wake := lambda **kwargs: woken.append(worker.in_flight))

    worker.stop()
    worker.put(finished)
    with django_capture_on_commit_callbacks(execute=True):
        worker.turn(never)
    deliveries_created.disconnect(wake)

    assert (len(finished), woken, worker.is_over) == (1, [0], True)


def test_a_worker_ended_during_its_turn_remains_ended(worker):
    def end(worker):
        worker.end()
        return False

    worker.turn(end)

    assert worker.is_over


def test_a_look_just_before_a_slot_is_free_is_followed_by_another(alice, clock, worker, monkeypatch):
    make_webhook(alice, max_in_flight=1)
    for _ in range(2):
        emit_one(alice)
    worker.turn(never)
    worker.put([success(claim, clock) for claim in worker.take()])
    slots = worker.slots
    give_back = slots.give_back

    def look_and_give_back(claims):
        worker.claim_turn(never)
        give_back(claims)

    monkeypatch.setattr(slots, "give_back", look_and_give_back)
    worker.record_turn()

    assert worker.seconds_to_claim() == 0
    assert not worker.has_claims


def test_a_stopped_worker_gives_up_waiting_for_results(results, worker, clock, caplog):
    worker.stop()
    clock.advance(settings.TIMEOUT_SECONDS + STOP_GRACE_SECONDS)
    worker.turn(never)
    assert not worker.is_over

    clock.advance(0.1)
    worker.turn(never)

    assert worker.is_over
    assert caplog.messages == ["Stopped before 8 results were recorded. Their leases will end."]


def test_claims_not_taken_are_released_after_an_outage(alice, webhook, clock, worker, monkeypatch):
    emit_one(alice)
    worker.turn(never)
    worker.stop()
    monkeypatch.setattr(connection, "close", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(worker.queue, "release", gone)
        worker.turn(never)
    assert not worker.is_over

    clock.advance(worker.pause_seconds())
    worker.turn(never)

    assert worker.is_over
    assert webhook.deliveries.get().claimed_at is None


def test_a_stopped_worker_sleeps_during_an_outage_with_requests_in_flight(results, clock, worker, monkeypatch):
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(worker.queue, "look", gone)
    worker.put(results[:1])
    clock.advance(1)
    worker.turn(never)
    clock.advance(1)
    worker.wake()
    worker.turn(never)
    assert 0 < worker.pause_seconds() < 1

    worker.stop()
    clock.advance(1)
    worker.turn(never)

    assert not worker.is_over
    assert worker.pause_seconds() >= LOOK_SECONDS


def test_a_retry_is_expected_even_if_its_commit_was_not_acknowledged(alice, webhook, clock, worker, monkeypatch):
    def commit_and_break(*args):
        record(*args)
        gone()

    monkeypatch.setattr(connection, "close", lambda: None)
    emit_one(alice)
    worker.turn(never)
    request = request_for(*worker.take(), now=clock(), timeout_seconds=30)
    failed = Exchange(request=request, duration_seconds=0, response=Response(status=500))
    worker.put([finish(failed)])
    with monkeypatch.context() as patch:
        patch.setattr(recording, "record", commit_and_break)
        worker.turn(never)
        clock.advance(0.02)
        worker.turn(never)
    assert DeliveryAttempt.objects.count() == 1

    clock.advance(worker.pause_seconds())
    worker.turn(never)
    clock.advance(0.3)
    worker.turn(never)

    assert worker.pause_seconds() < 1


def test_the_log_of_an_outage_is_one_line(clock, worker, monkeypatch, caplog):
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(worker.queue, "look", gone)

    worker.turn(never)

    (message,) = caplog.messages
    assert message.startswith("Waiting for the database: server closed the connection unexpectedly This")


def test_a_slot_is_expected_once(alice, clock, worker):
    make_webhook(alice, rate_limit=0.1)
    for _ in range(3):
        emit_one(alice)

    for _ in range(5):
        worker.wake()
        worker.turn(never)

    assert len(worker._schedule.moments) == 1


def test_a_claim_that_waited_too_long_is_released_unsent(alice, webhook, clock, worker):
    emit_one(alice)
    worker.turn(never)
    clock.advance(8)

    assert list(worker.take()) == []
    assert worker.pause_seconds() == 0
    taken = []
    for _ in range(2):  # the first turn may only renew the heartbeat
        worker.turn(never)
        taken += worker.take()

    assert [claim.number for claim in taken] == [1]
    assert DeliveryAttempt.objects.count() == 0


def test_the_retry_of_a_lost_attempt_counts_from_the_upper_bound_of_the_time(results, clock, monkeypatch):
    monkeypatch.setattr(clock, "latest", lambda: clock() + timedelta(seconds=20))
    clock.advance(46)
    lost_from = clock()

    worker = DeliveryWorker(using="default", clock=clock, window=WINDOW)
    for _ in range(2):
        worker.turn(never)
        clock.advance(0.1)

    retries = QueueEntry.objects.filter(delivery__last_result="worker_lost").values_list("due_at", flat=True)
    assert len(retries) == 8
    assert min(retries) >= lost_from + timedelta(seconds=20 + 1)


def test_the_retries_of_attempts_lost_together_are_distributed(results, clock):
    clock.advance(46)

    worker = DeliveryWorker(using="default", clock=clock, window=WINDOW)
    for _ in range(2):
        worker.turn(never)
        clock.advance(0.1)

    retries = sorted(QueueEntry.objects.filter(delivery__last_result="worker_lost").values_list("due_at", flat=True))
    assert len(set(retries)) == 8
    assert LOST_SPREAD / 2 < retries[-1] - retries[0] < LOST_SPREAD


def test_a_claim_in_progress_is_not_lost_after_its_lease(results, worker, clock):
    """The clock jumped, or the database was unavailable."""
    worker.put(results[:4])
    worker.turn(never)
    clock.advance(46)
    for _ in range(3):
        worker.wake()
        worker.turn(never)
        clock.advance(0.1)

    worker.put(results[4:])
    worker.turn(never)

    assert list(DeliveryAttempt.objects.values_list("result", flat=True)) == ["succeeded"] * 8


def test_after_an_outage_other_workers_have_time_to_record(results, clock, monkeypatch):
    worker = DeliveryWorker(using="default", clock=clock, window=WINDOW)
    monkeypatch.setattr(connection, "close", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(worker.queue, "look", gone)
        worker.turn(never)
    clock.advance(46)
    worker.turn(never)
    assert record(sql_for("default"), results[:4], clock()) == results[:4]

    for seconds in (5, 0.1):  # the second turn would record what the first found
        clock.advance(seconds)
        worker.turn(never)
    assert not DeliveryAttempt.objects.filter(result="worker_lost").exists()

    for _ in range(3):
        clock.advance(5.1)
        worker.turn(never)
    assert DeliveryAttempt.objects.filter(result="worker_lost").count() == 4


def test_a_claim_waits_briefly_for_results_that_are_written(worker):
    threads = WorkerThreads(worker, never, notify=lambda: None)
    began_at = time.monotonic()

    with threads.turn_to_write(), threads.turn_to_write():
        seconds = time.monotonic() - began_at

    assert seconds >= COLLECT_SECONDS * 0.9
    with threads.turn_to_write():  # no turn is left behind
        assert threads._writing.locked()
    assert not threads._writing.locked()


@pytest.mark.parametrize(
    ("in_flight", "has_single_writer", "waits"), [(62, False, False), (62, True, True), (63, False, True)]
)
def test_only_beyond_light_load_claims_wait_for_results_that_are_written(
    in_flight, has_single_writer, waits, clock, monkeypatch
):
    worker = DeliveryWorker(using="default", clock=clock, window=2000)
    worker.has_single_writer = has_single_writer
    monkeypatch.setattr("webhooks_app.delivery.worker.COLLECT_SECONDS", 5)
    monkeypatch.setattr(DeliveryWorker, "in_flight", in_flight)
    claimed = threading.Event()
    monkeypatch.setattr(worker, "claim_turn", lambda is_done: (claimed.set(), worker.end()))
    threads = WorkerThreads(worker, never, notify=lambda: None)

    with threads.turn_to_write():
        threads._threads[0].start()
        has_waited = not claimed.wait(0.1 if waits else 4)

    threads._threads[0].join()
    assert has_waited is waits
    assert claimed.is_set()


@pytest.mark.parametrize(("claimed", "seconds"), [(1, 0.00015), (20, 0.003), (66, 0.0099), (500, 0.01)])
def test_the_pause_after_a_claim_grows_with_the_claim_up_to_a_limit(claimed, seconds, worker, monkeypatch):
    pauses = []
    monkeypatch.setattr(worker._over, "wait", pauses.append)

    worker.pause_after_claim(Turn(has_asked=True, claimed=claimed))

    assert pauses == [pytest.approx(seconds)]


def test_there_is_no_pause_after_a_turn_that_claimed_nothing(results, worker, monkeypatch):
    pauses = []
    monkeypatch.setattr(worker._over, "wait", pauses.append)

    worker.pause_after_claim(worker.claim_turn(never))

    assert pauses == []


def test_there_is_no_pause_after_a_full_claim(alice, webhook, clock, monkeypatch):
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    for _ in range(3):
        emit_one(alice)
    pauses = []
    with override_settings(WEBHOOKS_BATCH_SIZE=2):
        worker = DeliveryWorker(using="default", clock=clock, window=WINDOW)
    monkeypatch.setattr(worker._over, "wait", pauses.append)

    worker.pause_after_claim(worker.claim_turn(never))
    assert (worker.in_flight, pauses) == (2, [])

    clock.advance(worker.seconds_to_claim() + 0.001)  # a sum of floats may be a little too small
    worker.pause_after_claim(worker.claim_turn(never))
    assert (worker.in_flight, pauses) == (3, [PAUSE_SECONDS_EACH])
