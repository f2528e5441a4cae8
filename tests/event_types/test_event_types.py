"""Event types: valid data, invalid data, and the published schemas."""

import json
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, field_validator

from webhooks_app.event_types import EventData, EventType, UtcTime
from webhooks_app.exceptions import InvalidEventDataError, InvalidEventTypeError
from webhooks_app.protocol.json_data import encode


class Line(BaseModel):
    sku: str
    note: str | None = None


class OrderPaid(BaseModel):
    order_id: str
    amount: int
    rate: float = 1.0
    paid: bool = True
    note: str | None = None
    lines: list[Line] = []
    extras: dict[str, Line] = {}


def order_paid(**changes):
    definition = {
        "name": "order.paid",
        "description": "An order was paid",
        "data_model": OrderPaid,
        "example": {"order_id": "o1", "amount": 3},
    }
    return EventType(**definition | changes)


ORDER_PAID = order_paid()


def errors_of(data, event_type=ORDER_PAID):
    with pytest.raises(InvalidEventDataError) as caught:
        event_type.validate(data)
    return caught.value.errors


def type_of(data_model, example):
    return order_paid(data_model=data_model, example=example)


def test_valid_data_is_returned_in_json_types():
    data = ORDER_PAID.validate({"order_id": "o1", "amount": 3, "rate": 2, "lines": [{"sku": "a"}]})

    assert data == {
        "order_id": "o1",
        "amount": 3,
        "rate": 2.0,
        "paid": True,
        "lines": [{"sku": "a"}],
        "extras": {},
    }
    assert type(data) is dict


def test_an_instance_of_the_data_model_is_accepted():
    data = ORDER_PAID.validate(OrderPaid(order_id="o1", amount=3, note="n"))

    assert (data["order_id"], data["amount"], data["note"], data["rate"]) == ("o1", 3, "n", 1.0)


def test_a_mapping_other_than_a_dict_is_accepted():
    assert ORDER_PAID.validate(MappingProxyType({"order_id": "o1", "amount": 3}))["amount"] == 3


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            {"order_id": "o1", "amount": 1, "lines": [{"sku": "a"}], "extras": {"b": {"sku": "b"}}}, id="mapping"
        ),
        pytest.param(
            OrderPaid(order_id="o1", amount=1, lines=[Line(sku="a")], extras={"b": Line(sku="b")}), id="instance"
        ),
    ],
)
def test_omitted_optional_fields_are_left_out_at_every_level(data):
    sent = ORDER_PAID.validate(data)

    assert "note" not in sent
    assert sent["lines"] == [{"sku": "a"}]
    assert sent["extras"] == {"b": {"sku": "b"}}


def test_an_optional_field_given_as_none_is_sent_as_null():
    sent = ORDER_PAID.validate({"order_id": "o1", "amount": 1, "note": None, "lines": [{"sku": "a", "note": None}]})

    assert sent["note"] is None
    assert sent["lines"] == [{"sku": "a", "note": None}]


GOOD = {"order_id": "o1", "amount": 1}


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        pytest.param({"amount": 1}, {"order_id": "is missing"}, id="missing"),
        pytest.param(GOOD | {"order_id": 7}, {"order_id": "should be a valid string, not int"}, id="number for text"),
        pytest.param(GOOD | {"order_id": b"o1"}, {"order_id": "should be a valid string, not bytes"}, id="bytes"),
        pytest.param(GOOD | {"amount": "1"}, {"amount": "should be a valid integer, not str"}, id="text for integer"),
        pytest.param(GOOD | {"amount": True}, {"amount": "should be a valid integer, not bool"}, id="bool for integer"),
        pytest.param(GOOD | {"amount": 1.0}, {"amount": "should be a valid integer, not float"}, id="float"),
        pytest.param(GOOD | {"rate": True}, {"rate": "should be a valid number, not bool"}, id="bool for number"),
        pytest.param(GOOD | {"paid": 1}, {"paid": "should be a valid boolean, not int"}, id="integer for bool"),
        pytest.param(GOOD | {"amount": None}, {"amount": "should be a valid integer, not NoneType"}, id="None"),
        pytest.param(
            GOOD | {"lines": [{"sku": "a"}, {"sku": 2}]},
            {"lines[1].sku": "should be a valid string, not int"},
            id="nested",
        ),
        pytest.param(
            GOOD | {"colour": "red"},
            {"colour": "is not a field of this type; the fields are order_id, amount, rate, paid, note, lines, extras"},
            id="unknown field",
        ),
        pytest.param(
            GOOD | {"lines": [{"sku": "a", "size": 1}]},
            {"lines[0].size": "is not a field of this type"},
            id="unknown field, nested",
        ),
        pytest.param({"x": 1}, {"order_id", "amount", "x"}, id="all at once"),
        pytest.param(None, {"": "must be a mapping or an instance of OrderPaid, not NoneType"}, id="None for all"),
        pytest.param([GOOD], {"": "must be a mapping or an instance of OrderPaid, not list"}, id="list for all"),
        pytest.param(
            Line(sku="a"), {"": "must be a mapping or an instance of OrderPaid, not Line"}, id="another model"
        ),
        pytest.param(GOOD | {1: 2}, {"": "has a key of type int; keys must be strings"}, id="key is a number"),
        pytest.param(GOOD | {"note": "\ud800"}, {"note": "contains a lone surrogate"}, id="surrogate"),
        pytest.param(GOOD | {"note": "\0"}, {"note": "contains NUL"}, id="NUL"),
        pytest.param(GOOD | {"rate": float("nan")}, {"rate": "nan is not a JSON number"}, id="NaN"),
        pytest.param(
            GOOD | {"\ud800": 1}, {"": "has the key \\ud800, which contains a lone surrogate"}, id="surrogate key"
        ),
    ],
)
def test_invalid_data_is_refused_by_field(data, errors):
    found = errors_of(data)

    assert found == errors if isinstance(errors, dict) else set(found) == errors


class Anything(BaseModel):
    value: Any = None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(float("inf"), "inf is not a JSON number", id="Infinity"),
        pytest.param({"a": float("nan")}, "nan is not a JSON number", id="NaN further in"),
        pytest.param({1: 2}, "has a key of type int; keys must be strings", id="number as a key"),
        pytest.param(10**5000, "is an integer of more than 1023 bits; send it as a string", id="5,000 digits"),
    ],
)
@pytest.mark.parametrize("make", [lambda value: {"value": value}, lambda value: Anything(value=value)])
def test_values_are_not_converted_for_models_that_allow_anything(value, problem, make):
    assert list(errors_of(make(value), type_of(Anything, {})).values()) == [problem]


@pytest.mark.parametrize("value", [object(), {"a": object()}, b"\xff"], ids=["object", "object further in", "bytes"])
def test_a_value_without_a_json_form_is_refused(value):
    assert errors_of({"value": value}, type_of(Anything, {}))


def test_recursive_data_is_refused():
    data = []
    data.append(data)

    assert errors_of({"value": data}, type_of(Anything, {}))


def test_an_instance_with_an_invalid_changed_field_is_refused():
    order = OrderPaid(order_id="o1", amount=1)
    order.amount = "many"

    assert errors_of(order) == {"amount": "should be a valid integer, not str"}


def test_a_changed_field_with_an_alias_is_named_by_its_alias():
    class Money(BaseModel):
        amount: Annotated[int, Field(alias="amountCents")]

    money = Money(amountCents=1)
    money.amount = "many"

    assert errors_of(money, type_of(Money, {"amountCents": 1})) == {"amount": "should be a valid integer, not str"}


def test_errors_are_short_and_do_not_quote_the_value():
    errors = errors_of({"order_id": ["hunter2" * 100_000], "amount": "hunter2", "k" * 100_000: "hunter2"})

    assert len(str(errors)) < 500
    assert "hunter2" not in str(errors)


def test_at_most_20_errors_are_listed():
    assert len(errors_of(GOOD | {"lines": [{"sku": 1}] * 1000})) == 20


def test_an_error_has_no_pydantic_error_as_its_cause():
    with pytest.raises(InvalidEventDataError) as caught:
        ORDER_PAID.validate({"order_id": 1, "amount": "hunter2"})

    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


class Size(StrEnum):
    SMALL = "small"


class Rich(EventData):
    at: UtcTime
    key: UUID
    size: Size
    tags: tuple[str, ...] = ()


RICH_JSON = {
    "at": "2026-01-31T12:00:00.000000Z",
    "key": "c8a0f6b2-6a4f-4c3e-9a2b-0d7a2f7b1c11",
    "size": "small",
    "tags": ["a"],
}
RICH_OBJECTS = {
    "at": datetime(2026, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))),
    "key": UUID("c8a0f6b2-6a4f-4c3e-9a2b-0d7a2f7b1c11"),
    "size": Size.SMALL,
    "tags": ("a",),
}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(RICH_JSON, id="as JSON"),
        pytest.param(RICH_OBJECTS, id="as Python objects"),
        pytest.param(Rich(**RICH_OBJECTS), id="as an instance"),
    ],
)
def test_times_and_uuids_are_accepted_as_objects_and_as_json_and_sent_alike(data):
    assert type_of(Rich, RICH_JSON).validate(data) == RICH_JSON


def test_a_time_without_a_zone_is_refused():
    event_type = type_of(Rich, RICH_JSON)

    assert list(errors_of(RICH_OBJECTS | {"at": datetime(2026, 1, 31)}, event_type)) == ["at"]  # noqa: DTZ001
    assert list(errors_of(RICH_JSON | {"at": "2026-01-31T12:00:00"}, event_type)) == ["at"]


def test_a_hosts_model_can_have_its_own_rule_for_unknown_fields():
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    assert type_of(Open, {"a": 1}).validate({"a": 1, "b": [2]}) == {"a": 1, "b": [2]}


def test_validators_and_aliases_of_a_hosts_model_are_used():
    class Money(BaseModel):
        amount: Annotated[int, Field(alias="amountCents")]

        @field_validator("amount")
        @classmethod
        def positive(cls, value):
            if value <= 0:
                raise ValueError("must be more than nothing")
            return value

    money = type_of(Money, {"amountCents": 1})

    assert money.validate({"amountCents": 5}) == {"amountCents": 5}
    assert money.validate(Money(amountCents=5)) == {"amountCents": 5}
    assert errors_of({"amountCents": 0}, money) == {"amountCents": "Value error, must be more than nothing"}
    assert errors_of({"amountCents": 1, "amount": 1}, money) == {
        "amount": "is not a field of this type; the fields are amountCents"
    }


def test_the_base_for_data_models_is_strict_and_immutable():
    class Started(EventData):
        pages: int

    with pytest.raises(ValidationError, match="valid integer"):
        Started(pages="3")
    with pytest.raises(ValidationError, match="not permitted"):
        Started(pages=3, colour="red")
    with pytest.raises(ValidationError, match="frozen"):
        Started(pages=3).pages = 4


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("order", id="one word"),
        pytest.param("Order.paid", id="upper case"),
        pytest.param("order.", id="ends in a dot"),
        pytest.param(".order", id="begins with a dot"),
        pytest.param("order..paid", id="two dots"),
        pytest.param("order-line.paid", id="hyphen"),
        pytest.param("order.paid\n", id="newline"),
        pytest.param("bestellung.bezählt", id="not ASCII"),
        pytest.param("", id="empty"),
        pytest.param("a." + "b" * 99, id="101 characters"),
    ],
)
def test_a_name_that_is_not_dotted_lower_case_is_refused(name):
    with pytest.raises(InvalidEventTypeError, match="is not a valid name of an event type"):
        order_paid(name=name)


@pytest.mark.parametrize("name", ["order.paid", "a.b.c.d", "order_line.v2_paid", "a." + "b" * 98])
def test_dotted_lower_case_names_are_accepted(name):
    assert order_paid(name=name).name == name


def test_an_invalid_example_is_refused_with_its_field():
    with pytest.raises(InvalidEventTypeError, match=r"example does not fit.*order\.paid: amount: is missing"):
        order_paid(example={"order_id": "o1"})


@pytest.mark.parametrize("data_model", [dict, RootModel[list[int]], OrderPaid(order_id="o", amount=1)])
def test_a_data_model_must_be_a_pydantic_class_with_fields(data_model):
    with pytest.raises(InvalidEventTypeError):
        order_paid(data_model=data_model)


def test_the_example_is_stored_in_the_form_that_is_sent():
    assert order_paid(example=OrderPaid(order_id="o1", amount=2)).example == {
        "order_id": "o1",
        "amount": 2,
        "rate": 1.0,
        "paid": True,
        "lines": [],
        "extras": {},
    }


def test_the_json_schema_is_valid_2020_12_and_accepts_sent_data():
    schema = ORDER_PAID.json_schema()

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator(schema).validate(ORDER_PAID.validate({**GOOD, "lines": [{"sku": "a", "note": None}]}))


def test_the_json_schema_allows_fields_that_are_added_later():
    class Closed(EventData):
        a: int

    schema = type_of(Closed, {"a": 1}).json_schema()

    Draft202012Validator(schema).validate({"a": 1, "new": 2})
    assert not Draft202012Validator(schema).is_valid({"a": "1"})


def test_the_json_schema_can_become_part_of_a_larger_document():
    schema = ORDER_PAID.json_schema(ref_template="#/components/schemas/{model}")

    assert schema["properties"]["lines"]["items"] == {"$ref": "#/components/schemas/Line"}
    assert "Line" in schema["$defs"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["order_id", "amount", "rate", "note", "lines"]) | st.text(st.characters()), anything
    )
    | st.fixed_dictionaries({"value": anything})
)
def test_any_data_is_either_sent_as_json_or_refused_with_one_error(data):
    for event_type in (ORDER_PAID, ANYTHING):
        try:
            sent = event_type.validate(data)
            body = encode(id="evt_1", type=event_type.name, created=datetime.now(UTC), data=sent)
        except InvalidEventDataError as error:
            assert len(str(error).encode()) < 5000  # noqa: PT017
        else:
            assert json.loads(body)["data"] == sent


ANYTHING = type_of(Anything, {})
