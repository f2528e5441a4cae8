"""A sleeping engine is notified of commits by PostgreSQL, without any message."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection, connections

from webhooks_app.conf import transport_options
from webhooks_app.database.clock import DatabaseClock
from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.listening import CHANNEL, NotifyEvent
from webhooks_app.delivery.schedule import Now, Schedule
from webhooks_app.transport.memory import MemoryTransport
from webhooks_app.wake import waking_workers
from webhooks_app.wake.messages import NotifyRate, notify

from ..support.engines import at_work
from ..support.rows import emit_one
from ..support.waiting import wait_until

pytestmark = [pytest.mark.only_on("postgresql"), pytest.mark.django_db(transaction=True)]

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@contextmanager
def asleep(alice, settings):
    """Run an engine that has delivered one event and sleeps for an hour. Yield its transport."""
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


@pytest.fixture(autouse=True)
def _real_wake_ups(settings):
    settings.WEBHOOKS_WAKE = "notify"
    with waking_workers():
        yield


@pytest.fixture(autouse=True)
def no_lingering(monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.schedule.LINGER_SECONDS", 0.0)


def test_new_deliveries_are_sent_at_once(alice, webhook, settings):
    with asleep(alice, settings) as transport:
        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2)


def test_new_deliveries_are_sent_even_if_the_engines_clock_lags(alice, webhook, settings, monkeypatch):
    read = DatabaseClock._read

    def read_slowly(clock, query):
        anchor = read(clock, query)
        return anchor._replace(answered_at=anchor.answered_at + 1, seconds=anchor.seconds + 1)

    monkeypatch.setattr(DatabaseClock, "_read", read_slowly)
    with asleep(alice, settings) as transport:
        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2)


def test_deliveries_after_the_suspension_of_notifications_are_sent(alice, webhook, settings, monkeypatch):
    rate = NotifyRate()
    rate._tokens, rate._at = 0.0, time.monotonic() + 60
    monkeypatch.setattr("webhooks_app.wake.messages._rate", rate)
    # longer than required on a busy machine
    for side in ("delivery.schedule", "wake.messages"):
        monkeypatch.setattr(f"webhooks_app.{side}.UNNOTIFIED_SECONDS", 10.0)
    with asleep(alice, settings) as transport:
        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2)
        assert rate.take() is None


def test_a_new_connection_listens_again(alice, webhook, settings):
    with asleep(alice, settings) as transport:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_terminate_backend(pid, 10000) {OTHERS}")
        wait_until(lambda: number_of(OTHERS))

        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2)


def test_a_closed_connection_does_not_listen():
    event = NotifyEvent("default", [].append)
    event.wait(0)
    event.clear()
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    event.wait(0)

    connection.close()


def test_a_notification_contains_the_webhooks():
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
        notify("default", ["wh_" + "1" * 32, "wh_" + "2" * 32])
        cursor.execute(f"UNLISTEN {CHANNEL}")

    (heard,) = connection.connection.notifies(timeout=20, stop_after=1)
    assert heard.payload == "1" * 32 + "," + "2" * 32


def test_a_process_with_many_commits_announces_the_suspension(monkeypatch):
    monkeypatch.setattr("webhooks_app.wake.messages._rate", NotifyRate())
    monkeypatch.setattr("webhooks_app.wake.messages.PER_SECOND", 0.0)
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
        for number in range(80):
            notify("default", [f"wh_{number:032}"])
        cursor.execute(f"UNLISTEN {CHANNEL}")

    payloads = [heard.payload for heard in connection.connection.notifies(timeout=20, stop_after=51)]
    assert len(payloads) == 51
    assert [payload.startswith("+") for payload in payloads] == [False] * 50 + [True]


def test_notifications_stay_suspended_while_commits_exceed_their_rate(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("webhooks_app.wake.messages.time", SimpleNamespace(monotonic=lambda: now))
    rate = NotifyRate()

    def prefixes(*, per_second):
        nonlocal now
        found = []
        for _ in range(per_second):
            now += 1 / per_second
            found.append(rate.take())
        return found

    burst = prefixes(per_second=1000)
    assert burst.count("") <= 101
    assert burst[-500:].count("+") == 5
    assert burst[-500:].count("") == 0
    assert prefixes(per_second=400)[-200:] == [""] * 200


def test_a_set_event_does_not_wait():
    event = NotifyEvent("default", [].append)
    waiting = threading.Thread(target=event.wait, args=(3600,), daemon=True)
    waiting.start()

    event.set()

    waiting.join(20)
    assert not waiting.is_alive()


def test_a_cleared_event_has_taken_the_notifications_so_far():
    webhook_id = "wh_" + "1" * 32
    told = []
    event = NotifyEvent("default", told.append)
    connection.ensure_connection()
    event.wait(0)

    with ThreadPoolExecutor(1) as others:
        others.submit(notify, "default", [webhook_id]).result()
        others.submit(connections.close_all).result()

    wait_until(lambda: event.clear() or told[1:])
    now = Now(datetime.now(UTC), time.monotonic())
    assert list(told[1](Schedule(sweep_seconds=5), now).names) == [webhook_id]
