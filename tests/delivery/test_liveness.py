"""Detection of dead workers by their heartbeats, and on PostgreSQL by their sessions."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from django.db import OperationalError, connection

from webhooks_app.database.dialects import dialect_of
from webhooks_app.delivery import liveness
from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.delivery.sql import sql_for
from webhooks_app.delivery.worker import DeliveryWorker
from webhooks_app.models import DeliveryAttempt, QueueEntry, QueueLane, Webhook, WorkerSession
from webhooks_app.transport import Exchange, Response

from ..support.rows import emit_one
from .conftest import ImpatientTransport

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

BY_SESSION = pytest.param("session", marks=pytest.mark.only_on("postgresql"))


@pytest.fixture(autouse=True)
def one_in_flight(webhook, settings):
    settings.WEBHOOKS_LEASE_SECONDS = 90  # long enough for a claim to start at any of these times
    Webhook.objects.update(max_in_flight=1)


@pytest.fixture
def long_running_server(monkeypatch):
    """Hide the recent start of the test server."""
    monkeypatch.setattr(type(dialect_of("default")), "uptime_seconds", lambda *_: 3600.0)


@pytest.fixture
def pooled(monkeypatch):
    """Make sessions invisible, as behind a pooler and on other databases."""
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)


@pytest.fixture(params=[BY_SESSION, "heartbeat"])
def limits(request):
    """Return the seconds without a heartbeat after which a worker is alive, and those after which it is dead."""
    if request.param == "session":
        return 2, 4
    request.getfixturevalue("pooled")
    return 11, 14


@pytest.fixture
def new_worker(clock):
    return lambda: DeliveryWorker(using="default", clock=clock, window=64)


@pytest.fixture
def judge(long_running_server, new_worker, clock):
    """Return a worker that has been connected for long enough."""
    worker = new_worker()
    run(clock, 16, worker)
    return worker


@pytest.fixture
def first(judge, new_worker, alice, clock):
    """Return a worker that has used up the webhook's limit. Another event is pending."""
    worker = new_worker()
    emit_one(alice)
    run(clock, 1, worker, judge)
    emit_one(alice)
    return worker


def never(_):
    return False


def run(clock, seconds, *workers):
    for _ in range(seconds):
        clock.advance(1)
        for worker in workers:
            worker.wake()
            worker.turn(never)


def end_session(worker):
    """Simulate the end of a worker's session, if sessions are visible."""
    row = WorkerSession.objects.filter(pk=number_of(worker))
    row.exclude(session_pid=None).update(session_started_at=LONG_AGO)


def number_of(worker):
    return worker.queue.worker


def results():
    return list(DeliveryAttempt.objects.order_by("number").values_list("result", flat=True))


def answered(claim, clock):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    exchange = Exchange(request=request, duration_seconds=0.1, response=Response(status=200))
    return finish(exchange)


def test_other_workers_take_over_from_a_dead_worker(limits, first, judge, clock):
    alive_seconds, dead_seconds = limits
    (lost,) = first.take()
    end_session(first)

    run(clock, alive_seconds, judge)
    assert (results(), list(judge.take())) == ([], [])

    run(clock, dead_seconds - alive_seconds, judge)
    run(clock, 1, judge)
    assert results() == ["worker_lost"]
    assert [claim.delivery_id == lost.delivery_id for claim in judge.take()] == [False]
    assert list(WorkerSession.objects.values_list("pk", flat=True)) == [number_of(judge)]
    assert all(str(number_of(first)) not in lane.in_flight for lane in QueueLane.objects.all())


def test_a_worker_with_a_heartbeat_keeps_its_claims(limits, first, judge, clock):
    list(first.take())

    run(clock, 20, first, judge)

    assert results() == []
    assert list(judge.take()) == []


@pytest.mark.only_on("postgresql")
def test_a_frozen_worker_whose_session_is_visible_keeps_its_claims(first, judge, clock):
    list(first.take())

    run(clock, 25, judge)

    assert results() == []
    assert WorkerSession.objects.filter(pk=number_of(first)).exists()


@pytest.mark.only_on("postgresql")
def test_a_session_of_the_same_number_is_another(first, judge, clock):
    row = WorkerSession.objects.get(pk=number_of(first))

    assert dialect_of("default").has_session(connection, (row.session_pid, row.session_started_at))
    assert not dialect_of("default").has_session(connection, (row.session_pid, LONG_AGO))
    assert not dialect_of("default").has_session(connection, (2**22 + 1, row.session_started_at))


def test_a_new_worker_declares_no_worker_dead(pooled, new_worker, first, clock):
    list(first.take())
    run(clock, 1, first)
    newcomer = new_worker()

    run(clock, 15, newcomer)
    assert results() == []

    run(clock, 2, newcomer)
    assert results() == ["worker_lost"]


def test_no_worker_is_declared_dead_for_15_seconds_after_an_outage(limits, first, judge, clock, monkeypatch):
    monkeypatch.setattr(connection, "close", lambda: None)
    list(first.take())
    end_session(first)
    clock.advance(4)
    judge.outage.began(OperationalError("gone"), "claims")
    clock.advance(1)

    run(clock, 15, judge)
    assert results() == []

    run(clock, 3, judge)
    assert results() == ["worker_lost"]


def test_no_worker_is_declared_dead_soon_after_the_start_of_the_server(limits, first, judge, clock, monkeypatch):
    monkeypatch.setattr(type(dialect_of("default")), "uptime_seconds", lambda *_: 14.0)
    list(first.take())
    end_session(first)

    run(clock, 20, judge)

    assert results() == []


def test_the_uptime_of_the_server_is_positive():
    assert dialect_of("default").uptime_seconds(connection) > 0


def test_a_worker_declares_no_worker_dead_soon_after_it_was_frozen(pooled, first, judge, clock):
    list(first.take())
    clock.advance(20)

    run(clock, 14, judge)
    assert results() == []

    run(clock, 3, judge)
    assert results() == ["worker_lost"]


def test_claims_of_a_worker_without_a_row_are_left_to_their_lease(pooled, first, judge, clock):
    list(first.take())
    WorkerSession.objects.filter(pk=number_of(first)).delete()

    run(clock, 20, judge)

    assert results() == []


def test_a_worker_with_a_renewed_heartbeat_is_not_dead(first, clock):
    row = WorkerSession.objects.get(pk=number_of(first))
    run(clock, 2, first)

    assert sql_for("default").end_claims(row.pk, row.seen_at, clock()) is None
    assert QueueEntry.objects.get(worker=row.pk).leased_until > clock()


def test_no_request_starts_without_a_recent_heartbeat(limits, first, clock):
    clock.advance(limits[0] + 1)

    assert not first.has_claims
    assert list(first.take()) == []

    first.turn(never)
    assert len(list(first.take())) == 1


def test_a_slow_claim_can_be_sent(limits, judge, alice, clock, monkeypatch):
    emit_one(alice)
    look = judge.queue.look

    def look_slowly(*args):
        found = look(*args)
        clock.advance(limits[0] + 1)
        return found

    monkeypatch.setattr(judge.queue, "look", look_slowly)

    run(clock, 1, judge)

    assert len(list(judge.take())) == 1


def test_after_a_suspension_no_request_starts_before_the_next_heartbeat(first, clock, monkeypatch):
    suspended_until = time.time() + 600
    monkeypatch.setattr(liveness.time, "time", lambda: suspended_until)
    assert list(first.take()) == []

    first.turn(never)
    assert len(list(first.take())) == 1


def test_a_worker_declared_dead_records_no_late_results(pooled, first, judge, clock):
    (late,) = first.take()
    run(clock, 15, judge)
    assert results() == ["worker_lost"]

    first.put([answered(late, clock)])
    run(clock, 1, first)

    assert results() == ["worker_lost"]


def test_a_worker_declared_dead_does_not_send_its_claims(pooled, first, judge, clock):
    run(clock, 15, judge)
    (claim,) = judge.take()

    first.turn(never)

    assert list(first.take()) == []
    assert first.in_flight == 0
    assert results() == ["worker_lost"]
    assert QueueEntry.objects.get(pk=claim.delivery_id).worker == number_of(judge)
    assert QueueEntry.objects.get(claimed_at=None, kind="event").attempt == 1
    assert WorkerSession.objects.filter(pk=number_of(first)).exists()


def test_a_claim_being_recorded_as_lost_cannot_be_released(first, judge, clock):
    (claim,) = first.take()
    QueueEntry.objects.filter(pk=claim.delivery_id).update(worker=number_of(judge))

    first.queue.release([claim])

    assert QueueEntry.objects.get(pk=claim.delivery_id).attempt == 1


def test_an_engine_deletes_its_row_at_the_end(alice, clock):
    emit_one(alice)
    seen = []
    transport = ImpatientTransport(clock, lambda _: seen.append(WorkerSession.objects.count()) or 200)

    Engine(transport=transport, clock=clock).run_until_idle()

    assert (seen, WorkerSession.objects.count()) == ([1], 0)


def test_a_heartbeat_is_one_update_by_the_primary_key(judge, clock, django_assert_num_queries):
    clock.advance(2)
    with django_assert_num_queries(1) as queries:
        judge._liveness.beat()

    assert queries[0]["sql"].startswith("UPDATE")
    assert not WorkerSession._meta.indexes
