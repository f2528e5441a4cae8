"""Due times follow the database's clock, even if the clocks of processes differ."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.utils import timezone

from webhooks_app import send_test_event
from webhooks_app.database import clock as clock_module
from webhooks_app.database.clock import DatabaseClock, _Anchor
from webhooks_app.models import Delivery
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification

from ..support.queues import LookingQueue
from ..support.rows import emit_one, unverified
from ..support.slots import open_slots

pytestmark = pytest.mark.django_db

NOT_SQLITE = pytest.mark.only_on("postgresql", "mariadb")  # SQLite has only the machine's clock.


class FastClock(datetime):
    """A process with a clock that is an hour ahead."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(hours=1)


def redeliver(alice, webhook):
    emit_one(alice)
    Delivery.objects.all().cancel("by hand")
    Delivery.objects.get().redeliver()


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        pytest.param("event", lambda alice, webhook: emit_one(alice), id="emitted"),
        pytest.param("test", lambda alice, webhook: send_test_event(webhook, "file.uploaded"), id="tested"),
        pytest.param(
            "verification", lambda alice, webhook: start_verification(unverified(webhook), actor=PROJECT), id="verified"
        ),
        pytest.param("event", redeliver, id="redelivered"),
    ],
)
def test_deliveries_of_a_process_with_a_fast_clock_are_due_now(alice, webhook, monkeypatch, kind, ask):
    monkeypatch.setattr(timezone, "datetime", FastClock)
    assert timezone.now() > datetime.now(UTC) + timedelta(minutes=59)
    ask(alice, webhook)

    queue = LookingQueue(
        using="default",
        clock=DatabaseClock("default"),
        lease=timedelta(seconds=45),
        slots=open_slots(),
    )

    assert [claim.kind for claim in queue.claim(10)] == [kind]


def test_a_queued_delivery_has_its_due_time(webhook):
    delivery = send_test_event(webhook, "file.uploaded")

    assert delivery.due_at == Delivery.objects.get().due_at


@NOT_SQLITE
def test_the_clock_is_the_databases(monkeypatch):
    monkeypatch.setattr(clock_module, "datetime", FastClock)

    assert abs(DatabaseClock("default")() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.fixture
def machine(monkeypatch):
    """The clocks of the machine, set by hand."""
    clocks = SimpleNamespace(monotonic=1000.0, time=5000.0)
    monkeypatch.setattr(clock_module.time, "monotonic", lambda: clocks.monotonic)
    monkeypatch.setattr(clock_module.time, "time", lambda: clocks.time)
    return clocks


def pass_seconds(machine, monotonic, wall):
    machine.monotonic += monotonic
    machine.time += wall


@NOT_SQLITE
def test_the_time_is_queried_once_a_minute(machine, django_assert_num_queries):
    clock = DatabaseClock("default")
    with django_assert_num_queries(1):
        first = clock()
        pass_seconds(machine, 59, 59)
        assert clock() - first == timedelta(seconds=59)

    pass_seconds(machine, 2, 2)
    with django_assert_num_queries(1):
        assert clock() - first < timedelta(seconds=59)


@NOT_SQLITE
@pytest.mark.parametrize("wall", [3600, -3600], ids=["suspended", "set-back"])
def test_the_time_is_queried_again_if_the_clocks_of_the_machine_diverge(machine, wall, django_assert_num_queries):
    clock = DatabaseClock("default")
    clock()

    pass_seconds(machine, 1, wall)
    with django_assert_num_queries(1):
        clock()
        clock()


@NOT_SQLITE
def test_other_threads_never_query(machine):
    clock = DatabaseClock("default")
    first = clock()
    pass_seconds(machine, 1, 3600)

    with ThreadPoolExecutor(1) as other:
        assert other.submit(clock).result() - first == timedelta(seconds=1)


def slow(before, after, times):
    """Return a wrapper that delays the first ``number`` queries, before or after their execution."""
    left = [None] * times

    def wrapper(execute, *arguments):
        if not left:
            return execute(*arguments)
        left.pop()
        time.sleep(before)
        answer = execute(*arguments)
        time.sleep(after)
        return answer

    return wrapper


@NOT_SQLITE
@pytest.mark.parametrize(("before", "after"), [(0.2, 0.0), (0.0, 0.2), (0.1, 0.1)], ids=["question", "answer", "both"])
def test_with_slow_queries_the_time_is_between_the_bounds_of_the_clock(before, after):
    clock = DatabaseClock("default")
    with connection.execute_wrapper(slow(before, after, times=1)):
        clock()

    exact = DatabaseClock("default")
    exact()

    assert clock() <= exact.latest()
    assert exact() <= clock.latest()
    assert clock.latest() - clock() < timedelta(seconds=1)


@NOT_SQLITE
def test_a_slow_query_is_repeated(monkeypatch):
    monkeypatch.setattr(clock_module, "MAX_QUERY_SECONDS", 60)
    clock = DatabaseClock("default")
    with connection.execute_wrapper(slow(0.0, 1.0, times=2)):
        clock()

    assert clock.latest() - clock() < timedelta(seconds=0.9)


@NOT_SQLITE
def test_a_very_slow_query_is_not_repeated(django_assert_num_queries):
    with connection.execute_wrapper(slow(0.0, 0.2, times=5)), django_assert_num_queries(1):
        DatabaseClock("default")()


@NOT_SQLITE
@pytest.mark.parametrize(("before", "after"), [(0.2, 0.0), (0.0, 0.2)], ids=["question", "answer"])
def test_a_slow_query_does_not_set_the_clock_back(monkeypatch, before, after):
    clock = DatabaseClock("default")
    first = clock()
    monkeypatch.setattr(clock_module, "RESYNC_SECONDS", 0.0)

    with connection.execute_wrapper(slow(before, after, times=1)):
        second = clock()

    monkeypatch.undo()
    exact = DatabaseClock("default")
    exact()
    assert first + timedelta(seconds=0.2) <= second <= clock() <= exact.latest()
    assert exact() <= clock.latest()


@NOT_SQLITE
def test_a_clock_that_the_database_sets_back_is_followed(monkeypatch):
    clock = DatabaseClock("default")
    first = clock()
    clock._last_read = clock._last_read._replace(moment=clock._last_read.moment + timedelta(hours=1))
    monkeypatch.setattr(clock_module, "RESYNC_SECONDS", 0.0)

    assert first < clock() < first + timedelta(minutes=1)


def test_a_reading_keeps_as_much_of_an_earlier_one_as_its_query_permits():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    earlier = _Anchor(at, answered_at=100.0, answered_at_by_wall_clock=0.0, seconds=0.0)
    slow, drift = 0.08, 0.001  # the answer took all of it, and the machine's clock was fast for a minute
    later = _Anchor(at + timedelta(seconds=60 - drift - slow), 160.0, 60.0, slow)

    kept = later.not_before(earlier)

    assert kept.moment == at + timedelta(seconds=60 - drift)
    assert kept.seconds == 0
