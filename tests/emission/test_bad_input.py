"""Invalid input of ``emit``: an error with its path, and no row."""

from __future__ import annotations

import asyncio
import enum
import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import NamedTuple

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser, Group
from django.db import DatabaseError, IntegrityError, InternalError, connection, connections, transaction
from django.dispatch import Signal
from django.utils.functional import SimpleLazyObject
from pydantic import BaseModel

from webhooks_app import EventType, aemit, emit, emit_on, registry
from webhooks_app.exceptions import InvalidEventDataError, InvalidOwnerError, UnknownEventTypeError
from webhooks_app.models import Delivery, Event
from webhooks_app.signals import deliveries_created, event_emitted

from ..support.rows import EVENT_TYPE, make_webhook

OPEN_TYPE = "shop.anything"
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
MEBIBYTE = 1024 * 1024


class Anything(BaseModel, extra="allow"):
    """A host's data model that accepts everything."""


class Pair(NamedTuple):
    first: object
    second: object


@dataclass(frozen=True)
class Box:
    content: object


class Ratio(enum.Enum):
    UNKNOWN = float("nan")


def endless():
    data: dict[str, object] = {}
    data["again"] = data
    return data


BAD_DATA = [
    pytest.param({"ratio": float("nan")}, r"ratio: nan is not a JSON number", id="NaN"),
    pytest.param({"a": {"b": [1, float("inf")]}}, r"a\.b\[1\]: inf is not a JSON number", id="Infinity"),
    pytest.param({"a": -float("inf")}, r"a: -inf is not a JSON number", id="-Infinity"),
    pytest.param({"a": Decimal("NaN")}, r"a: NaN is not a JSON number", id="decimal NaN"),
    pytest.param({"a": deque([1, float("nan")])}, r"a\[1\]: nan is not a JSON number", id="NaN in a deque"),
    pytest.param({"a": {float("nan")}}, r"a\[0\]: nan is not a JSON number", id="NaN in a set"),
    pytest.param({"a": [Ratio.UNKNOWN]}, r"a\[0\]: nan is not a JSON number", id="NaN in an enumeration"),
    pytest.param({"a": deque([Decimal("NaN")])}, r"a\[0\]: NaN is not a JSON number", id="decimal NaN in a deque"),
    pytest.param({"a": 1 + 2j}, r"a: is a complex number, which JSON does not have", id="complex number"),
    pytest.param({"a": NAIVE}, r"a: is a datetime without a time zone", id="naive datetime"),
    pytest.param({"a": [{"b": deque([NAIVE])}]}, r"a\[0\]\.b\[0\]: is a datetime", id="naive datetime inside"),
    pytest.param({"name": "x\ud800"}, r"name: contains a lone surrogate", id="surrogate"),
    pytest.param({"name": ["\0"]}, r"name\[0\]: contains NUL", id="NUL"),
    pytest.param({"a\0b": 1}, r"key a\\0b, which contains NUL", id="NUL in a key"),
    pytest.param({"\udfff": 1}, r"key \\udfff, which contains a lone surrogate", id="surrogate in a key"),
    pytest.param({1: "x"}, r"key of type int; keys must be strings", id="number for a key"),
    pytest.param({"a": {None: "x"}}, r"a: has a key of type NoneType", id="None for a key"),
    pytest.param({"a": {(1, 2): "x"}}, r"a: has a key of type tuple", id="tuple for a key"),
    pytest.param({"text": "x" * MEBIBYTE}, r"envelope of 1,048,\d+ bytes; the limit is 262,144 bytes", id="1 MiB"),
    pytest.param({"n": 10**400}, r"n: is an integer of more than 1023 bits", id="huge integer"),
    pytest.param({"a": object()}, r"a: contains a value that JSON does not allow \(found object\)", id="object"),
    pytest.param(
        {"a": 1, "b": {"c": [len]}}, r"Invalid data for shop\.anything: b: contains a value", id="object inside"
    ),
    pytest.param(endless(), r"deeper than 32 levels", id="endless"),
    pytest.param(None, r"must be a mapping .* not NoneType", id="None"),
    pytest.param("text", r"must be a mapping .* not str", id="text"),
    pytest.param(b"bytes", r"must be a mapping .* not bytes", id="bytes"),
    pytest.param([("a", 1)], r"must be a mapping .* not list", id="pairs"),
    pytest.param(Anything, r"must be a mapping .* not ", id="model instead of an instance"),
]

ITERATORS = [
    pytest.param(lambda: {"a": (n for n in [float("nan")])}, r"a\[0\]: nan is not", id="generator"),
    pytest.param(lambda: {"a": [iter([{"b": float("nan")}])]}, r"a\[0\]\[0\]\.b: nan is not", id="iterator inside"),
    pytest.param(lambda: Anything(a=(n for n in [float("nan")])), r"a\[0\]: nan is not", id="generator in a model"),
    pytest.param(
        lambda: {"a": Anything(b=(n for n in [float("nan")]))}, r"a\.b\[0\]: nan is not", id="in a nested model"
    ),
    pytest.param(lambda: {"a": deque([iter([float("nan")])])}, r"a\[0\]\[0\]: nan is not", id="in a deque"),
    pytest.param(lambda: {"a": Pair(1, iter([float("nan")]))}, r"a\[1\]\[0\]: nan is not", id="in a named tuple"),
    pytest.param(lambda: {"a": Box(iter([float("nan")]))}, r"a\.content\[0\]: nan is not", id="in a dataclass"),
    pytest.param(lambda: {"a": itertools.count()}, r"a: holds more than 262,144 items", id="endless iterator"),
]
"""Created for each test, because an iterator can be read only once."""

BAD_TYPES = [
    pytest.param("no.such_type", r"'no\.such_type'", id="unknown"),
    pytest.param("shop.anythin", r"Did you mean shop\.anything\?", id="misspelt"),
    pytest.param("webhook.retry", r"'webhook\.retry'", id="our own"),
    pytest.param("", r"Unknown event type ''", id="empty"),
    pytest.param("x" * MEBIBYTE, r"Unknown event type 'x{100}'", id="1 MiB"),
    pytest.param("a\0b", r"Unknown event type", id="NUL"),
    pytest.param(None, r"Python's type NoneType; give its name", id="None"),
    pytest.param([OPEN_TYPE], r"Python's type list", id="list"),
    pytest.param(b"shop.anything", r"Python's type bytes", id="bytes"),
]

BAD_OWNERS = [
    pytest.param(lambda model: model(username="new"), "not saved yet", id="not saved"),
    pytest.param(lambda model: model(pk=7, username="new"), "not saved yet", id="not saved, with a key"),
    pytest.param(lambda model: deleted(model.objects.create_user("gone")), "deleted", id="deleted"),
    pytest.param(lambda model: model.objects.create_user("x").pk, "type int", id="primary key"),
    pytest.param(lambda model: "alice", "type str", id="name"),
    pytest.param(lambda model: model, "type ModelBase", id="model"),
    pytest.param(lambda model: Group(name="x"), "type Group", id="another model"),
    pytest.param(lambda model: AnonymousUser(), "type AnonymousUser", id="anonymous"),
    pytest.param(lambda model: SimpleLazyObject(AnonymousUser), "type AnonymousUser", id="anonymous request.user"),
]

BAD_TIMES = [
    pytest.param(NAIVE, "is naive", id="naive"),
    pytest.param("2026-01-01T00:00:00Z", "of type str", id="text"),
    pytest.param(date(2026, 1, 1), "of type date", id="date"),
    pytest.param(0, "of type int", id="number"),
    pytest.param(datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), "outside the years", id="after 9999"),
    pytest.param(datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "outside the years", id="before 1"),
]


def deleted(owner):
    owner.delete()
    return owner


@pytest.fixture(autouse=True)
def _open_type():
    event_type = EventType(name=OPEN_TYPE, description="Anything.", data_model=Anything, example={"a": 1})
    with registry.temporarily(event_type):
        yield


@pytest.fixture
def alice(db, django_user_model):
    return django_user_model.objects.create_user("alice")


@pytest.fixture
def listening(alice):
    """A webhook that would get the event, and a check that it did not."""
    webhook = make_webhook(alice, OPEN_TYPE, EVENT_TYPE)
    heard = []
    for signal in (event_emitted, deliveries_created):
        signal.connect(lambda **kwargs: heard.append(kwargs), weak=False, dispatch_uid="heard")
    yield webhook
    for signal in (event_emitted, deliveries_created):
        signal.disconnect(dispatch_uid="heard")
    assert (Event.objects.count(), Delivery.objects.count(), heard) == (0, 0, [])


@pytest.mark.parametrize(("data", "words"), BAD_DATA)
def test_data_that_cannot_be_sent_is_refused_with_its_path(alice, listening, data, words):
    with pytest.raises(InvalidEventDataError, match=words):
        emit(OPEN_TYPE, data, owner=alice)


@pytest.mark.parametrize(("make_data", "words"), ITERATORS)
def test_the_items_of_an_iterator_are_checked(alice, listening, make_data, words):
    with pytest.raises(InvalidEventDataError, match=words):
        emit(OPEN_TYPE, make_data(), owner=alice)


@pytest.mark.parametrize(("event_type", "words"), BAD_TYPES)
def test_an_unknown_type_is_refused_by_name(alice, listening, event_type, words):
    with pytest.raises(UnknownEventTypeError, match=words) as caught:
        emit(event_type, {"a": 1}, owner=alice)

    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(("make_owner", "words"), BAD_OWNERS)
def test_an_owner_other_than_a_saved_account_is_refused(listening, django_user_model, make_owner, words):
    owner = make_owner(django_user_model)

    with pytest.raises(InvalidOwnerError, match=words):
        emit(OPEN_TYPE, {"a": 1}, owner=owner)


@pytest.mark.parametrize(("occurred_at", "words"), BAD_TIMES)
def test_an_ambiguous_time_is_refused(alice, listening, occurred_at, words):
    with pytest.raises(InvalidEventDataError, match=f"occurred_at: .*{words}"):
        emit(OPEN_TYPE, {"a": 1}, owner=alice, occurred_at=occurred_at)


@pytest.mark.parametrize(("data", "words"), BAD_DATA)
def test_the_senders_of_bound_signals_get_the_same_errors(alice, listening, data, words):
    something_happened = Signal()
    emit_on(something_happened, OPEN_TYPE, lambda sender: (alice, data))

    with pytest.raises(InvalidEventDataError, match=words):
        something_happened.send(None)


def test_a_refused_event_does_not_break_the_callers_transaction(alice, listening):
    with transaction.atomic():
        Group.objects.create(name="editors")
        with pytest.raises(InvalidEventDataError):
            emit(OPEN_TYPE, {"a": float("nan")}, owner=alice)

    assert Group.objects.filter(name="editors").exists()


def test_the_error_does_not_contain_the_refused_value(alice, listening):
    with pytest.raises(InvalidEventDataError) as caught:
        emit(OPEN_TYPE, {"card": "4111-1111\0"}, owner=alice)

    assert "4111" not in str(caught.value)


@pytest.mark.parametrize("data", [{}, {"a": OrderedDict(b=(1, "ü", None, 0.5, True))}], ids=["empty", "every type"])
def test_values_that_json_can_represent_are_sent(alice, data):
    assert emit(OPEN_TYPE, data, owner=SimpleLazyObject(lambda: alice)).owner == alice


# Transactions


@pytest.fixture
def committed(transactional_db, django_user_model):
    """An account, in a test with real transactions."""
    return django_user_model.objects.create_user("alice")


def break_transaction():
    with connection.cursor() as cursor:
        cursor.execute("SELECT no_such_column FROM no_such_table")


def emit_after_an_error_inside(owner):
    """Emit in a transaction that Django knows to be broken."""
    with transaction.atomic():
        with pytest.raises(DatabaseError), transaction.atomic(savepoint=False):
            break_transaction()
        emit(OPEN_TYPE, {"a": 1}, owner=owner)


def emit_after_a_hidden_error(owner):
    """Emit in a transaction that only the database knows to be broken, and only PostgreSQL refuses."""
    with transaction.atomic():
        with pytest.raises(DatabaseError):
            break_transaction()
        emit(OPEN_TYPE, {"a": 1}, owner=owner)


def emit_after_giving_up(owner):
    with transaction.atomic():
        transaction.set_rollback(True)
        emit(OPEN_TYPE, {"a": 1}, owner=owner)


@pytest.mark.parametrize(
    "emit_too_late",
    [
        emit_after_an_error_inside,
        emit_after_giving_up,
        pytest.param(emit_after_a_hidden_error, marks=pytest.mark.only_on("postgresql")),
    ],
    ids=lambda function: function.__name__,
)
def test_emit_in_a_broken_transaction_raises_an_error(committed, listening_for_commits, emit_too_late):
    with pytest.raises(transaction.TransactionManagementError, match=r"shop\.anything cannot be emitted: an earlier"):
        emit_too_late(committed)

    assert listening_for_commits == []
    assert Event.objects.count() == 0


def test_emit_after_a_hidden_error_raises_the_same_error_with_psycopg2(committed):
    class DriverError(Exception):
        pgcode = "25P02"

    def refuse(*arguments):
        raise InternalError("current transaction is aborted") from DriverError()

    with (
        pytest.raises(transaction.TransactionManagementError, match="an earlier error broke this transaction"),
        transaction.atomic(),
        connection.execute_wrapper(refuse),
    ):
        emit(OPEN_TYPE, {"a": 1}, owner=committed)


@pytest.fixture
def listening_for_commits(committed):
    make_webhook(committed, OPEN_TYPE)
    heard = []
    event_emitted.connect(lambda **kwargs: heard.append(kwargs), weak=False, dispatch_uid="commits")
    yield heard
    event_emitted.disconnect(dispatch_uid="commits")


def test_a_handled_error_in_a_savepoint_keeps_the_event(committed, listening_for_commits):
    with transaction.atomic():
        with pytest.raises(DatabaseError), transaction.atomic():
            break_transaction()
        emit(OPEN_TYPE, {"a": 1}, owner=committed)

    assert len(listening_for_commits) == 1


def test_an_event_for_a_deleted_account_is_refused(committed, listening_for_commits, django_user_model):
    django_user_model.objects.filter(pk=django_user_model.objects.create_user("bob").pk).delete()
    ghost = django_user_model.objects.create_user("carol")
    connection.cursor().execute(f"DELETE FROM {django_user_model._meta.db_table} WHERE id = {ghost.pk}")

    with pytest.raises(IntegrityError):
        emit(OPEN_TYPE, {"a": 1}, owner=ghost)

    assert (Event.objects.count(), listening_for_commits) == (0, [])


@pytest.mark.parametrize(("data", "words"), BAD_DATA)
def test_the_asynchronous_version_refuses_the_same_data(committed, listening_for_commits, data, words):
    async def emit_and_hang_up():
        try:
            await aemit(OPEN_TYPE, data, owner=committed)
        finally:
            await sync_to_async(connections.close_all)()

    with pytest.raises(InvalidEventDataError, match=words):
        asyncio.run(emit_and_hang_up())

    assert (Event.objects.count(), listening_for_commits) == (0, [])


def test_a_distant_time_is_accepted(alice):
    assert emit(OPEN_TYPE, {}, owner=alice, occurred_at=datetime(1000, 1, 1, tzinfo=UTC)).body.count("1000-01-01") == 1
