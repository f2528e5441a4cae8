"""Handing out claims and taking back results, while both go on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError, connection

from webhooks_app.delivery import desk as desk_module
from webhooks_app.delivery.desk import Desk
from webhooks_app.delivery.recording import record
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.models import Delivery, DeliveryAttempt, Webhook
from webhooks_app.retry import RetrySchedule
from webhooks_app.signals import attempt_made
from webhooks_app.transport import Exchange, Response

from ..making import emit_one, make_webhook

pytestmark = pytest.mark.django_db


def never(desk):
    return False


def gone(*args, **options):
    raise OperationalError("server closed the connection unexpectedly\n\tThis probably means that it crashed.\n")


@pytest.fixture
def desk(clock):
    return Desk(using="default", clock=clock, window=8)


@pytest.fixture
def results(alice, webhook, clock, desk):
    """Eight attempts that are over, of claims that the desk has handed out."""
    Webhook.objects.update(max_in_flight=8)
    for _ in range(8):
        emit_one(alice)
    desk.turn(never)
    requests = [request_for(claim, now=clock(), timeout_seconds=30) for claim in desk.take()]
    answer = Response(status=200)
    schedule = RetrySchedule.of_seconds()
    return [finish(Exchange(request=r, duration_seconds=0.1, response=answer), schedule) for r in requests]


def test_half_of_what_is_out_is_recorded_without_waiting_for_more(results, desk):
    desk.put(results[:3])
    desk.turn(never)
    assert DeliveryAttempt.objects.count() == 0

    desk.put(results[3:4])
    desk.turn(never)

    assert DeliveryAttempt.objects.count() == 4


def test_less_is_recorded_after_20_ms(results, desk, clock):
    desk.put(results[:1])
    desk.turn(never)
    assert desk.pause_seconds() == pytest.approx(0.02, abs=0.001)

    clock.advance(0.021)
    desk.turn(never)

    assert DeliveryAttempt.objects.count() == 1


def test_what_comes_while_others_are_recorded_does_not_wait_for_a_sweep(results, desk):
    desk.put(results[:2])
    desk.turn(never)
    late = iter([results[4:5]])
    attempt_made.connect(put_late := lambda **kwargs: desk.put(next(late, [])))

    desk.put(results[2:4])
    desk.turn(never)
    attempt_made.disconnect(put_late)

    assert desk.pause_seconds() == 0


def test_a_stopped_desk_gives_back_what_nobody_took(alice, webhook, desk):
    emit_one(alice)
    desk.turn(never)

    desk.stop()
    desk.turn(never)

    assert desk.is_over
    delivery = webhook.deliveries.get()
    assert (delivery.attempt_count, delivery.claimed_at) == (0, None)


def test_a_desk_that_is_ended_from_outside_during_its_turn_stays_ended(desk):
    def end(desk):
        desk.is_over = True
        return False

    desk.turn(end)

    assert desk.is_over


def test_what_nobody_took_is_given_back_once_the_database_answers(alice, webhook, clock, desk, monkeypatch):
    emit_one(alice)
    desk.turn(never)
    desk.stop()
    monkeypatch.setattr(connection, "close", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(desk._queue, "release", gone)
        desk.turn(never)
    assert not desk.is_over

    clock.advance(desk.pause_seconds())
    desk.turn(never)

    assert desk.is_over
    assert webhook.deliveries.get().claimed_at is None


def test_a_stopped_desk_sleeps_while_the_database_is_away_and_requests_are_out(results, clock, desk, monkeypatch):
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(desk._queue, "claim", gone)
    desk.put(results[:1])
    clock.advance(1)
    desk.turn(never)
    clock.advance(1)
    desk.wake()
    desk.turn(never)
    assert 0 < desk.pause_seconds() < 1

    desk.stop()
    clock.advance(1)
    desk.turn(never)

    assert not desk.is_over
    assert desk.pause_seconds() > 1


def test_a_retry_is_looked_for_though_its_commit_was_not_acknowledged(alice, webhook, clock, desk, monkeypatch):
    def commit_and_break(*args):
        record(*args)
        gone()

    monkeypatch.setattr(connection, "close", lambda: None)
    emit_one(alice)
    desk.turn(never)
    request = request_for(*desk.take(), now=clock(), timeout_seconds=30)
    failed = Exchange(request=request, duration_seconds=0, response=Response(status=500))
    desk.put([finish(failed, RetrySchedule.of_seconds([1]))])
    with monkeypatch.context() as patch:
        patch.setattr(desk_module, "record", commit_and_break)
        desk.turn(never)
        clock.advance(0.02)
        desk.turn(never)
    assert DeliveryAttempt.objects.count() == 1

    clock.advance(desk.pause_seconds())
    desk.turn(never)
    clock.advance(0.3)
    desk.turn(never)

    assert desk.pause_seconds() < 1


def test_what_the_desk_waits_for_is_one_line(clock, desk, monkeypatch, caplog):
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr(desk._queue, "claim", gone)

    desk.turn(never)

    (message,) = caplog.messages
    assert message.startswith("Waiting for the database: server closed the connection unexpectedly This")


def test_a_slot_is_expected_once(alice, clock, desk):
    make_webhook(alice, rate_limit=0.1)
    for _ in range(3):
        emit_one(alice)

    for _ in range(5):
        desk.wake()
        desk.turn(never)

    assert len(desk._agenda._moments) == 1


def test_a_claim_that_waited_too_long_is_given_back_unsent(alice, webhook, clock, desk):
    emit_one(alice)
    desk.turn(never)
    clock.advance(8)

    assert list(desk.take()) == []
    assert desk.pause_seconds() == 0
    desk.turn(never)

    assert [claim.number for claim in desk.take()] == [1]
    assert DeliveryAttempt.objects.count() == 0


def test_the_retry_of_a_lost_attempt_counts_from_the_latest_time_that_it_may_be(results, clock, monkeypatch):
    monkeypatch.setattr(clock, "latest", lambda: clock() + timedelta(seconds=20))
    clock.advance(46)
    lost_from = clock()

    desk = Desk(using="default", clock=clock, window=8)
    for _ in range(2):
        desk.turn(never)
        clock.advance(0.1)

    retries = Delivery.objects.filter(last_result="worker_lost").values_list("next_attempt_at", flat=True)
    assert len(retries) == 8
    assert min(retries) >= lost_from + timedelta(seconds=20 + 1)


def test_after_an_outage_the_others_may_record_before_their_claims_are_lost(results, clock, monkeypatch):
    desk = Desk(using="default", clock=clock, window=8)
    monkeypatch.setattr(connection, "close", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(desk._queue, "claim", gone)
        desk.turn(never)
    clock.advance(46)
    desk.turn(never)
    assert record("default", results[:4], clock()) == results[:4]

    clock.advance(5)
    desk.turn(never)
    assert not DeliveryAttempt.objects.filter(result="worker_lost").exists()

    for _ in range(3):
        clock.advance(5.1)
        desk.turn(never)
    assert DeliveryAttempt.objects.filter(result="worker_lost").count() == 4
