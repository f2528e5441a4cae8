"""The rows and recipients of `emit`, and its errors."""

from __future__ import annotations

import asyncio
import enum
import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, transaction
from django.utils.translation import gettext_lazy
from pydantic import BaseModel

from webhooks_app import EventType, NewEvent, aemit, emit, emit_many, registry, send_test_event
from webhooks_app.exceptions import (
    InvalidEventDataError,
    InvalidOwnerError,
    UnknownEventTypeError,
    WebhookStateError,
)
from webhooks_app.models import Delivery, Event, Webhook
from webhooks_app.signals import deliveries_created, event_emitted

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from ..support.statements import statements_of

pytestmark = pytest.mark.django_db


class Anything(BaseModel, extra="allow"):
    """A host's data model that accepts everything."""


OPEN_TYPE = EventType(name="shop.anything", description="Anything.", data_model=Anything, example={"a": 1})


def reached():
    return set(Delivery.objects.filter(kind="event").values_list("webhook_id", flat=True))


def test_each_subscribed_webhook_of_the_owner_gets_a_delivery(alice):
    subscribed = {make_webhook(alice).pk, make_webhook(alice, "file.deleted", EVENT_TYPE).pk}
    make_webhook(alice, "file.deleted")

    emit_one(alice)

    assert reached() == subscribed


def test_an_event_reaches_no_other_owners_webhook(alice, bob):
    make_webhook(bob)

    emit_one(alice)

    assert reached() == set()
    assert Event.objects.count() == 1


def test_the_platforms_webhook_gets_every_owners_events(alice):
    platform = make_webhook(None)

    emit_one(alice)
    emit_one(None)

    assert Delivery.objects.filter(webhook=platform).count() == 2


def test_an_event_of_the_platform_reaches_no_owner(alice):
    make_webhook(alice)

    emit_one(None)

    assert reached() == set()


@pytest.mark.parametrize("status", ["pending", "disabled", "failed"])
def test_only_active_webhooks_get_deliveries(alice, status):
    make_webhook(alice, status=status)

    emit_one(alice)

    assert reached() == set()


def test_a_deleted_webhook_gets_no_delivery(alice):
    make_webhook(alice).soft_delete()

    emit_one(alice)

    assert reached() == set()


def test_a_type_is_not_confused_with_one_that_contains_its_name(alice):
    Webhook.objects.filter(pk=make_webhook(alice).pk).update(event_types=[f"{EVENT_TYPE}.late"])

    emit_one(alice)

    assert reached() == set()


def test_the_number_of_statements_does_not_depend_on_the_webhooks(alice):
    def statements():
        return len(statements_of(lambda: emit_one(alice)))

    make_webhook(alice)
    few = statements()
    for _ in range(20):
        make_webhook(alice)

    assert statements() == few
    assert Delivery.objects.filter(kind="event").count() == 1 + 21


def test_delivery_ids_are_unique_and_have_the_published_form(alice):
    for _ in range(5):
        make_webhook(alice)

    emit_one(alice)

    ids = set(Delivery.objects.filter(kind="event").values_list("pk", flat=True))
    assert len(ids) == 5
    assert all(len(pk) == 36 and pk.startswith("dlv_") and pk[4:].isalnum() for pk in ids)


def test_the_body_is_exactly_the_envelope(alice):
    occurred_at = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)

    event = emit(EVENT_TYPE, {"error": "Zu groß"}, owner=alice, occurred_at=occurred_at)

    head = f'{{"id":"{event.pk}","type":"{EVENT_TYPE}","created":"2026-01-31T12:00:00.123456Z",'
    assert Event.objects.get().body == head + '"data":{"error":"Zu groß"}}'


def test_a_rolled_back_event_leaves_nothing(alice):
    make_webhook(alice)

    def emit_and_fail():
        emit_one(alice)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        transaction.atomic(emit_and_fail)()

    assert Event.objects.count() == 0
    assert reached() == set()


def test_workers_are_woken_once_after_the_commit(alice, django_capture_on_commit_callbacks):
    signals = []
    deliveries_created.connect(lambda **kwargs: signals.append("created"), weak=False, dispatch_uid="test")
    event_emitted.connect(lambda **kwargs: signals.append(kwargs["deliveries"]), weak=False, dispatch_uid="test")
    make_webhook(alice)
    try:
        with django_capture_on_commit_callbacks() as callbacks:
            emit_one(alice)
        assert signals == []
        for callback in callbacks:
            callback()
    finally:
        deliveries_created.disconnect(dispatch_uid="test")
        event_emitted.disconnect(dispatch_uid="test")

    assert signals == [1, "created"]


def test_an_unknown_type_is_refused_with_a_suggestion(alice):
    with pytest.raises(UnknownEventTypeError, match=r"ppt\.generation\.failed"):
        emit("ppt.generation.faild", {"error": "x"}, owner=alice)

    assert Event.objects.count() == 0


@pytest.mark.parametrize(
    ("data", "path"),
    [
        pytest.param({}, "error", id="missing"),
        pytest.param({"error": 5}, "error", id="wrong type"),
        pytest.param({"error": "x", "extra": 1}, "extra", id="unknown field"),
        pytest.param({"error": "a\0b"}, "error", id="NUL"),
        pytest.param({"error": "\ud800"}, "error", id="lone surrogate"),
        pytest.param("x", "data", id="no mapping"),
    ],
)
def test_invalid_data_is_refused_with_its_field(alice, data, path):
    with pytest.raises(InvalidEventDataError, match=path):
        emit(EVENT_TYPE, data, owner=alice)

    assert Event.objects.count() == 0


@dataclass
class Box:
    content: object


class Answer(enum.Enum):
    YES = gettext_lazy("Delete")


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        pytest.param(Box(gettext_lazy("Delete")), {"content": "Delete"}, id="dataclass"),
        pytest.param(deque([gettext_lazy("Delete")]), ["Delete"], id="deque"),
        pytest.param(frozenset([gettext_lazy("Delete")]), ["Delete"], id="set"),
        pytest.param(Answer.YES, "Delete", id="enumeration"),
        pytest.param((1, iter([gettext_lazy("Delete")])), [1, ["Delete"]], id="iterator in a tuple"),
    ],
)
def test_a_lazy_translation_is_sent_as_text_in_every_container(alice, value, sent):
    with registry.temporarily(OPEN_TYPE):
        event = emit(OPEN_TYPE.name, {"a": value}, owner=alice)

    assert event.data == {"a": sent}


def test_a_lazy_translation_is_sent_as_text(alice):
    typed = emit(EVENT_TYPE, {"error": gettext_lazy("Delete")}, owner=alice)
    with registry.temporarily(OPEN_TYPE):
        untyped = emit(OPEN_TYPE.name, {"a": [{"b": gettext_lazy("Delete")}]}, owner=alice)

    assert (typed.data, untyped.data) == ({"error": "Delete"}, {"a": [{"b": "Delete"}]})


def test_an_iterator_and_a_collection_are_sent_as_arrays(alice):
    with registry.temporarily(OPEN_TYPE):
        event = emit(OPEN_TYPE.name, {"a": (n for n in range(2)), "b": deque([1])}, owner=alice)

    assert event.data == {"a": [0, 1], "b": [1]}


def test_an_envelope_over_the_limit_is_refused(alice, settings):
    settings.WEBHOOKS_MAX_ENVELOPE_BYTES = 1000

    with pytest.raises(InvalidEventDataError, match="the limit is 1,000 bytes"):
        emit_one(alice, "x" * 1000)


def test_a_naive_time_is_refused(alice):
    with pytest.raises(InvalidEventDataError, match="naive"):
        emit(EVENT_TYPE, {"error": "x"}, owner=alice, occurred_at=datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("make_owner", [lambda model: model(username="new"), lambda model: "alice", lambda model: 1])
def test_an_owner_other_than_a_saved_account_is_refused(django_user_model, make_owner):
    with pytest.raises(InvalidOwnerError):
        emit(EVENT_TYPE, {"error": "x"}, owner=make_owner(django_user_model))


def test_a_test_event_is_marked_only_in_its_row(alice):
    delivery = send_test_event(make_webhook(alice), "user.registered")

    assert (delivery.kind, delivery.event.is_test) == ("test", True)
    assert set(json.loads(delivery.event.body)) == {"id", "type", "created", "data"}


def test_a_disabled_webhook_gets_no_test_event(alice):
    webhook = make_webhook(alice)
    webhook.disable("Too slow.")

    with pytest.raises(WebhookStateError, match="Too slow"):
        send_test_event(webhook, EVENT_TYPE)


@pytest.mark.django_db(transaction=True)
def test_the_asynchronous_version_writes_the_same_rows(alice):
    make_webhook(alice)

    async def emit_and_hang_up():
        event = await aemit(EVENT_TYPE, {"error": "x"}, owner=alice)
        await sync_to_async(connections.close_all)()
        return event

    event = asyncio.run(emit_and_hang_up())

    assert Delivery.objects.filter(event=event).count() == 1


@pytest.mark.parametrize("emitting", ["emit", "emit_many", "idempotent"])
def test_emit_in_asynchronous_code_names_the_asynchronous_function(alice, emitting):
    async def emit_directly():
        if emitting == "emit_many":
            emit_many([NewEvent(EVENT_TYPE, {"error": "a"}, owner=alice)])
        else:
            emit(EVENT_TYPE, {"error": "a"}, owner=alice, idempotency_key="1" if emitting == "idempotent" else None)

    with pytest.raises(SynchronousOnlyOperation, match="await aemit"):
        asyncio.run(emit_directly())
    assert not Event.objects.exists()
