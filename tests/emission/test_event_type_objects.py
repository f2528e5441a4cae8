"""Emission by an event type rather than by its name."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.db.models.signals import post_save
from django.dispatch import Signal
from pydantic import BaseModel

from webhooks_app import EventType, emit, emit_on, registry
from webhooks_app.exceptions import InvalidEventDataError, UnknownEventTypeError
from webhooks_app.models import Delivery, Event

from ..support.rows import make_webhook

pytestmark = pytest.mark.django_db


class InvoicePaid(BaseModel):
    amount: int


def invoice_paid():
    return EventType(name="invoice.paid", description="Paid", data_model=InvoicePaid, example={"amount": 5})


@pytest.fixture
def event_type():
    event_type = invoice_paid()
    with registry.temporarily(event_type):
        yield event_type


def test_an_event_type_emits_to_its_subscribers(event_type, alice):
    webhook = make_webhook(alice, "invoice.paid")

    event = event_type.emit(InvoicePaid(amount=7), owner=alice)

    assert (event.type, event.data, event.owner) == ("invoice.paid", {"amount": 7}, alice)
    assert Delivery.objects.get(event=event).webhook == webhook


def test_emit_accepts_an_event_type_and_a_mapping(event_type):
    assert emit(event_type, {"amount": 7}, owner=None).type == "invoice.paid"


@pytest.mark.django_db(transaction=True)
def test_an_event_type_emits_from_asynchronous_code(event_type):
    async def emit_and_hang_up():
        event = await event_type.aemit({"amount": 7}, owner=None)
        await sync_to_async(connections.close_all)()
        return event

    event = asyncio.run(emit_and_hang_up())

    assert Event.objects.get().pk == event.pk


def test_data_of_another_model_is_refused(event_type):
    class InvoiceSent(BaseModel):
        amount: int

    with pytest.raises(InvalidEventDataError, match="instance of InvoicePaid, not InvoiceSent"):
        event_type.emit(InvoiceSent(amount=7), owner=None)


def test_an_event_type_that_is_not_registered_is_refused_with_the_remedy():
    with pytest.raises(UnknownEventTypeError, match=r"invoice\.paid is not registered\. Call registry\.register\(\)"):
        invoice_paid().emit({"amount": 7}, owner=None)


def test_an_event_type_with_the_name_of_another_one_is_refused(event_type):
    with pytest.raises(UnknownEventTypeError, match="registered with another object"):
        invoice_paid().emit({"amount": 7}, owner=None)


def test_an_operational_event_type_is_not_emitted_by_a_host():
    with pytest.raises(UnknownEventTypeError, match=r"'webhook\.failing'"):
        registry.get("webhook.failing").emit({}, owner=None)


def test_a_signal_is_bound_to_an_event_type(event_type):
    paid = Signal()
    emit_on(paid, event_type, lambda sender, amount: (None, InvoicePaid(amount=amount)))

    paid.send(None, amount=7)

    assert Event.objects.get().data == {"amount": 7}


def test_the_decorator_returns_the_function(event_type):
    def saved(sender, **kwargs):
        return None

    assert emit_on(post_save, event_type, dispatch_uid="saved")(saved) is saved
    post_save.disconnect(dispatch_uid="saved")
