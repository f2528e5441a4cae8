"""An engine that sleeps hears of a commit from PostgreSQL, without any message."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from webhooks_app.delivery.bell import CHANNEL, Bell, ring
from webhooks_app.delivery.clock import DatabaseClock
from webhooks_app.delivery.engine import Engine
from webhooks_app.egress import transport_options
from webhooks_app.transport.memory import MemoryTransport

from ..making import emit_one
from ..waiting import wait_until
from ..working import at_work

pytestmark = [pytest.mark.only_on("postgresql"), pytest.mark.django_db(transaction=True)]

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@contextmanager
def asleep(alice, settings):
    """Run an engine that has delivered one event and will not look again for an hour; yield its transport."""
    settings.WEBHOOKS_SWEEP_SECONDS = 3600
    transport = MemoryTransport(transport_options())
    with at_work(Engine(transport=transport, database_thread=True)) as engine:
        emit_one(alice)
        wait_until(lambda: len(transport.requests) == 1 and not engine.in_flight)
        yield transport


def number_of(rows):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) {rows}")
        return cursor.fetchone()[0]


@pytest.fixture
def ring_at_once(monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.bell.RING_EVERY_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def no_lingering(monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.agenda.LINGER_SECONDS", 0.0)


def test_what_is_committed_is_sent_at_once(alice, webhook, settings, ring_at_once):
    with asleep(alice, settings) as transport:
        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2, timeout_seconds=20)


def test_what_is_committed_is_sent_though_the_engines_clock_lags(alice, webhook, settings, ring_at_once, monkeypatch):
    ask = DatabaseClock._ask

    def ask_slowly(clock, query):
        anchor = ask(clock, query)
        return anchor._replace(answered_at=anchor.answered_at + 1, seconds=anchor.seconds + 1)

    monkeypatch.setattr(DatabaseClock, "_ask", ask_slowly)
    with asleep(alice, settings) as transport:
        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2, timeout_seconds=20)


def test_what_is_committed_shortly_after_a_ring_is_sent_though_it_does_not_ring(alice, webhook, settings, monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.bell.RING_EVERY_SECONDS", 0.5)
    monkeypatch.setattr("webhooks_app.delivery.bell._rang_at", {})
    with asleep(alice, settings) as transport:
        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2, timeout_seconds=20)


def test_a_lost_connection_is_listened_on_anew(alice, webhook, settings, ring_at_once):
    with asleep(alice, settings) as transport:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_terminate_backend(pid, 10000) {OTHERS}")
        wait_until(lambda: number_of(OTHERS))

        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2, timeout_seconds=20)


def test_a_connection_that_somebody_else_found_lost_is_not_listened_on():
    bell = Bell("default", on_ring=lambda again_after_seconds: None)
    bell.wait(0)
    bell.clear()
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    bell.wait(0)

    connection.close()


def test_a_process_rings_no_more_often_than_engines_go_on_looking():
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
        for _ in range(50):
            ring("default")
        cursor.execute(f"UNLISTEN {CHANNEL}")

    assert len(list(connection.connection.notifies(timeout=0.5))) <= 1


def test_a_bell_that_is_set_does_not_wait():
    bell = Bell("default", on_ring=lambda again_after_seconds: None)
    waiting = threading.Thread(target=bell.wait, args=(3600,), daemon=True)
    waiting.start()

    bell.set()

    waiting.join(20)
    assert not waiting.is_alive()
