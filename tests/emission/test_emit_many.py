"""Several events at once: all or none."""

from __future__ import annotations

import pytest
from django.db import transaction

from webhooks_app import NewEvent, emit_many
from webhooks_app.exceptions import InvalidBatchError, InvalidEventDataError, InvalidOwnerError, UnknownEventTypeError
from webhooks_app.models import Delivery, Event, QueueEntry
from webhooks_app.signals import deliveries_created, event_emitted

from ..support.rows import EVENT_TYPE, make_webhook
from ..support.statements import statements_of

pytestmark = pytest.mark.django_db


def failed(error, owner=None):
    return NewEvent(EVENT_TYPE, {"error": error}, owner=owner)


def test_each_event_reaches_the_webhooks_of_its_owner(alice, bob):
    hers, his = make_webhook(alice), make_webhook(bob)

    events = emit_many([failed("a", alice), failed("b", bob), failed("c", bob)])

    assert [event.data["error"] for event in events] == ["a", "b", "c"]
    assert list(Delivery.objects.filter(webhook=hers).values_list("event", flat=True)) == [events[0].pk]
    assert set(Delivery.objects.filter(webhook=his).values_list("event", flat=True)) == {e.pk for e in events[1:]}


def test_one_invalid_event_prevents_all_of_them(alice):
    batch = [failed("a", alice), NewEvent("no.such", {}, owner=alice), failed(5, alice), failed("d", "alice")]

    with pytest.raises(InvalidBatchError) as caught:
        emit_many(batch)

    kinds = {index: type(error) for index, error in caught.value.errors.items()}
    assert kinds == {1: UnknownEventTypeError, 2: InvalidEventDataError, 3: InvalidOwnerError}
    assert "No event was emitted. [1] Unknown event type 'no.such'" in str(caught.value)
    assert Event.objects.count() == 0


def test_the_message_of_a_large_batch_is_short():
    with pytest.raises(InvalidBatchError, match=r"; and 95 more$"):
        emit_many([failed(5)] * 100)


@pytest.mark.django_db(transaction=True)
def test_a_rollback_removes_all_events(alice):
    make_webhook(alice)

    with transaction.atomic():
        emit_many([failed("a", alice), failed("b", alice)])
        transaction.set_rollback(True)

    assert Event.objects.count() == 0


def test_workers_are_woken_once_for_the_whole_batch(alice, django_capture_on_commit_callbacks):
    webhook = make_webhook(alice)
    woken, emitted = [], []
    deliveries_created.connect(on_woken := lambda **kwargs: woken.append(kwargs))
    event_emitted.connect(on_emitted := lambda event, **kwargs: emitted.append(event.pk))

    with django_capture_on_commit_callbacks(execute=True):
        events = emit_many([failed("a", alice), failed("b", alice)])

    deliveries_created.disconnect(on_woken)
    event_emitted.disconnect(on_emitted)
    assert len(woken) == 1
    assert emitted == [event.pk for event in events]
    assert webhook.deliveries.filter(event__in=events).count() == 2


def test_an_empty_batch_writes_nothing(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert emit_many([]) == []


@pytest.mark.parametrize("filtered", [False, True], ids=["without filters", "with a filter"])
def test_a_long_batch_is_delivered_in_its_order(alice, bob, filtered):
    ordered = make_webhook(alice, order="webhook", filter={"error": {"$ne": "7"}} if filtered else None)
    plain, other = make_webhook(alice), make_webhook(bob)
    events = [NewEvent(EVENT_TYPE, {"error": str(index)}, owner=bob if index == 9 else alice) for index in range(20)]

    found = emit_many(events)

    wanted = [event.pk for index, event in enumerate(found) if index != 9 and not (filtered and index == 7)]
    assert (
        list(QueueEntry.objects.filter(webhook=ordered).order_by("place").values_list("event_id", flat=True)) == wanted
    )
    assert Delivery.objects.filter(webhook=plain).count() == 19
    assert Delivery.objects.get(webhook=other).event_id == found[9].pk
    assert [Event.objects.get(pk=event.pk).data for event in found] == [new.data for new in events]


@pytest.mark.only_on("postgresql")
def test_a_long_batch_takes_few_statements(alice):
    make_webhook(alice)
    events = [NewEvent(EVENT_TYPE, {"error": str(index)}, owner=alice) for index in range(150)]
    emit_many(events[:10])  # prepares the statement

    statements = statements_of(lambda: emit_many(events))

    assert len([sql for sql in statements if "EXECUTE" in sql]) == 3
    assert Event.objects.count() == 160
