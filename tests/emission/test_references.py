"""References: business identifiers for finding events."""

from __future__ import annotations

import pytest
from django.db import connection
from pydantic import BaseModel

from webhooks_app import EventType, emit, registry
from webhooks_app.emission.outbox import UNPREPARED_EVENTS
from webhooks_app.exceptions import InvalidEventDataError, InvalidEventTypeError
from webhooks_app.models import Event, EventReference

from ..support.rows import EVENT_TYPE
from ..support.statements import statements_of

pytestmark = pytest.mark.django_db


class Paid(BaseModel):
    invoice: str
    customer: int
    coupon: str | None = None


def paid(**fields):
    return EventType(
        name="invoice.paid", description="Paid", data_model=Paid, example={"invoice": "inv_1", "customer": 7}, **fields
    )


def emit_referring(*references):
    return emit(EVENT_TYPE, {"error": "No outline"}, owner=None, references=references)


def found_by(reference):
    return list(Event.objects.filter(pk__in=EventReference.events(reference)))


def test_an_event_is_found_by_each_of_its_references():
    event = emit_referring("ppt_8f14e45f", "user_1")
    emit_referring("ppt_other")

    assert found_by("ppt_8f14e45f") == found_by("user_1") == [event]
    assert found_by("ppt_") == []


def test_the_reference_fields_of_an_event_type_are_references():
    with registry.temporarily(event_type := paid(reference_fields=("invoice", "customer", "coupon"))):
        event = event_type.emit({"invoice": "inv_1", "customer": 7}, owner=None, references=["order_5"])

    assert set(event.references.values_list("value", flat=True)) == {"order_5", "inv_1", "7"}


@pytest.mark.only_on("postgresql")
@pytest.mark.django_db(transaction=True)
def test_references_are_part_of_the_statement_of_their_event():
    connection.close()  # other tests may have prepared the statement

    def emitted():
        return statements_of(lambda: emit_referring('{"a\\", b', "NULL", "é"))

    (unprepared,) = emitted()
    for _ in range(UNPREPARED_EVENTS):
        (last,) = emitted()

    assert (unprepared.lstrip().startswith("WITH"), last.startswith("EXECUTE")) == (True, True)
    assert len(found_by('{"a\\", b')) == len(found_by("NULL")) == len(found_by("é")) == 1 + UNPREPARED_EVENTS


def test_a_repeated_reference_is_stored_once():
    assert emit_referring("a", "a").references.count() == 1


def test_references_that_differ_only_in_case_are_accepted():
    event = emit_referring("ppt_a", "PPT_A")

    assert found_by("ppt_a") == [event]


def test_a_reference_field_must_exist():
    with pytest.raises(InvalidEventTypeError, match="no field order for a reference; it has invoice, customer"):
        paid(reference_fields=("order",))


@pytest.mark.parametrize(
    ("references", "problem"),
    [
        pytest.param(["a", 5], r"references\[1\]: is of type int", id="number"),
        pytest.param([""], r"references\[0\]: has 0 characters; give 1 to 100", id="empty"),
        pytest.param(["x" * 101], "has 101 characters", id="too long"),
        pytest.param(["a\nb"], "cannot be printed", id="newline"),
        pytest.param("ppt_1", "references: is a string; give a list", id="string"),
        pytest.param([str(number) for number in range(9)], "has 9 values; an event has at most 8", id="nine"),
    ],
)
def test_references_that_cannot_be_stored_are_refused(references, problem):
    with pytest.raises(InvalidEventDataError, match=problem):
        emit(EVENT_TYPE, {"error": "No outline"}, owner=None, references=references)


def test_an_event_with_references_is_deleted_with_its_owner(django_user_model):
    alice = django_user_model.objects.create_user("alice")
    emit(EVENT_TYPE, {"error": "a"}, owner=alice, references=["ppt_1"], idempotency_key="k")

    alice.delete()

    assert (Event.objects.count(), EventReference.objects.count()) == (0, 0)
