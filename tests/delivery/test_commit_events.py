"""A sleeping engine detects commits without any message."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection, connections

from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.listening import PolledEvent, commit_event
from webhooks_app.delivery.schedule import Schedule
from webhooks_app.transport.memory import MemoryTransport

from ..support.engines import at_work
from ..support.rows import emit_one
from ..support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def told():
    """What a worker is told."""
    return []


@pytest.fixture
def event(told):
    """An event after all commits so far."""
    connection.ensure_connection()
    event = PolledEvent("default", told.append)
    event.wait(0)
    told.clear()
    return event


def elsewhere(function):
    def run():
        function()
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@pytest.mark.only_on("sqlite", "mariadb")
def test_a_sleeping_engine_sends_new_deliveries(alice, webhook, settings, monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.schedule.LINGER_SECONDS", 0.0)
    settings.WEBHOOKS_SWEEP_SECONDS = 3600
    transport = MemoryTransport(transport_options())
    with at_work(Engine(transport=transport, database_thread=True)) as engine:
        emit_one(alice)
        wait_until(lambda: len(transport.requests) == 1 and not engine.in_flight)

        emit_one(alice)

        wait_until(lambda: len(transport.requests) == 2)


def test_a_commit_ends_the_wait_and_makes_a_look_due(alice, webhook, event, told):
    elsewhere(lambda: emit_one(alice))

    event.wait(60)

    assert told == [Schedule.asked]


def test_without_a_commit_the_wait_ends_at_its_timeout(event, told):
    started_at = time.monotonic()

    event.wait(0.1)

    assert time.monotonic() - started_at >= 0.1
    assert told == []


def test_set_ends_the_wait_without_a_look(event, told):
    event.set()

    event.wait(60)

    assert told == []


def test_a_failed_connection_makes_a_look_due(event, told, monkeypatch):
    monkeypatch.setattr(event, "_sql", "SELECT nothing_of_this_name")

    event.wait(60)

    assert told == [Schedule.asked]


def test_a_server_is_not_polled_if_messages_wake_the_engine(told):
    is_polled = isinstance(commit_event("default", told.append, is_woken=True), PolledEvent)

    assert is_polled == (connection.vendor == "sqlite")
