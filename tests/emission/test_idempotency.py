"""One event for each idempotency key of an owner."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction
from pydantic import BaseModel

from webhooks_app import EventType, NewEvent, emit, emit_many
from webhooks_app.emission.emitting import find_committed
from webhooks_app.event_types import registry
from webhooks_app.exceptions import IdempotencyConflictError, InvalidBatchError, InvalidEventDataError
from webhooks_app.models import Delivery, Event, IdempotencyKey

from ..support.rows import EVENT_TYPE, make_webhook

pytestmark = pytest.mark.django_db


def emit_with(key, error="No outline", owner=None, event_type=EVENT_TYPE):
    return emit(event_type, {"error": error}, owner=owner, idempotency_key=key)


def test_the_same_key_and_data_return_the_first_event(alice):
    webhook = make_webhook(alice)

    first, again = emit_with("order-1", owner=alice), emit_with("order-1", owner=alice)

    assert again == first
    assert again.data == {"error": "No outline"}
    assert webhook.deliveries.filter(kind=Delivery.Kind.EVENT).count() == 1


def test_other_data_under_the_key_is_a_conflict_that_names_the_event():
    first = emit_with("order-1")

    with pytest.raises(IdempotencyConflictError, match="'order-1' was used for evt_") as caught:
        emit_with("order-1", error="Other")

    assert (caught.value.event_id, Event.objects.count()) == (first.pk, 1)


def test_another_type_under_the_key_is_a_conflict():
    emit(EVENT_TYPE, {"error": "a", "ppt_id": "ppt_1", "user_id": "user_1"}, owner=None, idempotency_key="k")

    with pytest.raises(IdempotencyConflictError):
        emit("ppt.edit.failed", {"error": "a", "ppt_id": "ppt_1", "user_id": "user_1"}, owner=None, idempotency_key="k")


def test_owners_and_the_platform_have_separate_keys(alice, django_user_model):
    bob = django_user_model.objects.create_user("bob")

    events = {emit_with("k", owner=owner, error=str(owner)).pk for owner in (alice, bob, None)}

    assert len(events) == 3


def test_keys_are_compared_exactly():
    assert len({emit_with(key).pk for key in ("k", "K", "k ", "ḱ")}) == 4


def test_a_conflict_leaves_the_callers_transaction_usable():
    emit_with("k")

    with transaction.atomic():
        with pytest.raises(IdempotencyConflictError):
            emit_with("k", error="Other")
        emit_with("l")

    assert Event.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_rollback_frees_the_key():
    with transaction.atomic():
        rolled_back = emit_with("k", error="First")
        transaction.set_rollback(True)

    event = emit_with("k", error="Second")

    assert event.pk != rolled_back.pk
    assert Event.objects.get() == event


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        pytest.param("", "has 0 characters; give 1 to 255", id="empty"),
        pytest.param("k" * 256, "has 256 characters", id="too long"),
        pytest.param(5, "is of type int; give a string", id="number"),
        pytest.param("a\0b", "cannot be printed", id="NUL"),
        pytest.param("\ud800", "cannot be printed", id="surrogate"),
    ],
)
def test_a_key_that_cannot_be_stored_is_refused(key, problem):
    with pytest.raises(InvalidEventDataError, match=f"idempotency_key: .*{problem}"):
        emit_with(key)


def test_a_batch_writes_each_key_once_and_returns_an_event_for_each_item():
    earlier = emit_with("a", error="a")
    batch = [NewEvent(EVENT_TYPE, {"error": key}, owner=None, idempotency_key=key) for key in ("b", "a", "b")]

    events = emit_many(batch)

    assert [event.data["error"] for event in events] == ["b", "a", "b"]
    assert (events[0], events[1]) == (events[2], earlier)
    assert Event.objects.count() == 2


def test_a_conflict_in_a_batch_prevents_all_events():
    emit_with("a", error="a")
    batch = [NewEvent(EVENT_TYPE, {"error": "x"}, owner=None, idempotency_key=key) for key in ("b", "a")]

    with pytest.raises(InvalidBatchError) as caught:
        emit_many(batch)

    assert list(caught.value.errors) == [1]
    assert (Event.objects.count(), IdempotencyKey.objects.count()) == (1, 1)


class Listed(BaseModel):
    items: list[int]


def test_a_list_in_another_order_is_other_data():
    event_type = EventType(name="shop.listed", description="Listed.", data_model=Listed, example={"items": [1]})

    with registry.temporarily(event_type):
        emit("shop.listed", {"items": [1, 2]}, owner=None, idempotency_key="k")
        with pytest.raises(IdempotencyConflictError):
            emit("shop.listed", {"items": [2, 1]}, owner=None, idempotency_key="k")


@pytest.mark.parametrize("table", ["webhooks_app_idempotencykey", "webhooks_app_event"])
def test_a_key_that_pruning_deletes_meanwhile_is_claimed_again(table):
    first, deleted = emit_with("k"), []

    def prune(execute, sql, *arguments):
        if not deleted and sql.startswith("SELECT") and f"FROM {connection.ops.quote_name(table)}" in sql:
            deleted.append(True)
            Event.objects.all().delete()
        return execute(sql, *arguments)

    with connection.execute_wrapper(prune):
        event = emit_with("k")

    assert deleted
    assert event.pk != first.pk
    assert IdempotencyKey.objects.get().event_id == Event.objects.get().pk == event.pk


@pytest.mark.django_db(transaction=True)
def test_concurrent_calls_with_one_key_write_one_event(alice):
    make_webhook(alice)
    barrier = threading.Barrier(8)

    def emit_at_once(number):
        barrier.wait()
        try:
            return emit_with("order-1", owner=alice).pk
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(emit_at_once, range(8)))

    assert ids == {Event.objects.get().pk}
    assert Delivery.objects.filter(kind=Delivery.Kind.EVENT).count() == 1


@pytest.mark.django_db(transaction=True)
def test_batches_with_the_same_keys_of_two_owners_do_not_deadlock(alice, django_user_model):
    bob = django_user_model.objects.create_user("bob")
    both = threading.Barrier(2)

    def emit_batch(owners):
        both.wait()
        try:
            batch = [NewEvent(EVENT_TYPE, {"error": "a"}, owner=owner, idempotency_key="k") for owner in owners]
            return {event.pk for event in emit_many(batch)}
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as threads:
        for _ in range(20):
            IdempotencyKey.objects.all().delete()
            first, second = threads.map(emit_batch, [(alice, bob), (bob, alice)])
            assert first == second


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_a_call_waits_for_the_transaction_that_has_the_key(commits):
    has_key, waits = threading.Event(), threading.Event()

    def emit_second():
        has_key.wait(10)
        waits.set()
        try:
            return emit_with("k").pk
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(emit_second)
        with transaction.atomic():
            first = emit_with("k").pk
            has_key.set()
            waits.wait(10)
            assert not second.done()
            transaction.set_rollback(not commits)
        found = second.result(20)

    assert Event.objects.get().pk == found
    assert (found == first) is commits


@pytest.fixture
def repeatable_read():
    """The isolation level of MariaDB without Django's setting, at which a transaction keeps its first snapshot."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'")
        if cursor.fetchone():  # since MariaDB 11.6 a locking read of a newer row would fail
            cursor.execute("SET SESSION innodb_snapshot_isolation = OFF")
    yield
    connection.close()


@pytest.mark.only_on("mariadb")
@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_newer_than_the_snapshot_is_found(alice, repeatable_read):
    def emit_elsewhere():
        try:
            return emit_with("order-1", owner=alice)
        finally:
            connections.close_all()

    with transaction.atomic():
        assert not IdempotencyKey.objects.exists()  # begins the snapshot
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(emit_elsewhere).result(timeout=60)
        key = IdempotencyKey.objects.using("default").select_for_update().get()
        assert not IdempotencyKey.objects.exists()

        assert find_committed(IdempotencyKey, key.pk, "default") == key
        assert find_committed(Event, first.pk, "default") == first
        assert emit_with("order-1", owner=alice) == first

    assert Event.objects.count() == 1
