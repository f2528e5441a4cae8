"""Filters: their operators, their errors, and the check against data models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, JsonValue
from typing_extensions import TypeAliasType

from webhooks_app.conf import parse_filter
from webhooks_app.event_types import EventType
from webhooks_app.exceptions import InvalidFilterError
from webhooks_app.filters import FILTER_OPERATORS, check_fields

DATA: dict[str, Any] = {
    "amount": 5,
    "price": 1.0,
    "name": "Ada",
    "is_paid": True,
    "nothing": None,
    "customer": {"country": "DE", "age": 30},
    "tags": ["new", "vip"],
    "lines": [{"product": "pen", "number": 2, "discount": 1}, {"product": "cup", "number": 1}],
    "none": [],
    "created": "2026-01-31T12:00:00.000000Z",
}


@pytest.mark.parametrize(
    ("source", "matches"),
    [
        ({"amount": 5}, True),
        ({"amount": 6}, False),
        ({"price": 1}, True),
        ({"is_paid": 1}, False),
        ({"is_paid": True}, True),
        ({"amount": "5"}, False),
        ({"nothing": None}, True),
        ({"missing": None}, False),
        ({"amount": {"$ne": 6}}, True),
        ({"missing": {"$ne": 6}}, True),
        ({"amount": {"$gt": 4, "$lt": 6}}, True),
        ({"amount": {"$gt": 5}}, False),
        ({"amount": {"$gte": 5}}, True),
        ({"amount": {"$lte": 4}}, False),
        ({"is_paid": {"$gt": 0}}, False),
        ({"name": {"$gt": "Abc"}}, True),
        ({"created": {"$gte": "2026-01-31"}}, True),
        ({"name": {"$in": ["Ada", "Grace"]}}, True),
        ({"name": {"$nin": ["Ada"]}}, False),
        ({"missing": {"$nin": ["Ada"]}}, True),
        ({"missing": {"$exists": False}}, True),
        ({"nothing": {"$exists": True}}, True),
        ({"name": {"$startsWith": "A"}}, True),
        ({"name": {"$endsWith": "A"}}, False),
        ({"customer": {"country": "DE"}}, True),
        ({"customer": {"country": "FR"}}, False),
        ({"customer": {"$eq": {"age": 30, "country": "DE"}}}, True),
        ({"name": {"first": "A"}}, False),
        ({"tags": "vip"}, True),
        ({"tags": {"$eq": ["new", "vip"]}}, True),
        ({"tags": {"$ne": "vip"}}, False),
        ({"lines": {"product": "cup", "number": 1}}, True),
        ({"lines": {"product": "hat"}}, False),
        ({"lines": {"product": "cup", "number": 2}}, True),
        ({"lines": {"product": {"$ne": "cup"}}}, False),
        ({"lines": {"product": {"$ne": "hat"}}}, True),
        ({"lines": {"product": {"$nin": ["hat", "cup"]}}}, False),
        ({"lines": {"product": {"$not": {"$eq": "cup"}}}}, False),
        ({"lines": {"product": {"$exists": False}}}, False),
        ({"lines": {"price": {"$exists": False}}}, True),
        ({"lines": {"discount": {"$exists": False}}}, False),
        ({"lines": {"discount": {"$exists": True}}}, True),
        ({"none": {"product": {"$ne": "cup"}}}, True),
        ({"none": {"product": {"$exists": True}}}, False),
        ({"tags": {"$nin": ["vip"]}}, False),
        ({"name": {"$in": [["Ada"], {"a": 1}]}}, False),
        ({"is_paid": {"$in": [1, "x"]}}, False),
        ({"$and": [{"amount": 5}, {"name": "Ada"}]}, True),
        ({"$or": [{"amount": 6}, {"name": "Ada"}]}, True),
        ({"$or": [{"amount": 6}, {"name": "Bob"}]}, False),
        ({"$not": {"amount": 5}}, False),
        ({"amount": {"$not": {"$gt": 5}}}, True),
        ({"amount": {"$or": [{"$lt": 1}, {"$gt": 4}]}}, True),
    ],
    ids=str,
)
def test_a_filter_matches_by_its_conditions(source, matches):
    parsed = parse_filter(source)

    assert parsed.holds(DATA) is matches
    assert (parsed.mismatch(DATA) is None) is matches


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"amount": {"$gt": 100}}, "data.amount is 5, the filter requires more than 100"),
        ({"customer": {"country": "FR"}}, 'data.customer.country is "DE", the filter requires "FR"'),
        ({"missing": "x"}, 'data.missing is missing, the filter requires "x"'),
        ({"lines": {"product": {"$ne": "cup"}}}, 'data.lines.product is "cup", the filter requires anything but "cup"'),
        ({"none": {"product": "cup"}}, 'data.none.product is missing, the filter requires "cup"'),
        ({"$not": {"amount": 5}}, 'the filter requires anything that does not match {"amount": 5}'),
        (
            {"$or": [{"amount": 1}, {"amount": 2}]},
            "data.amount is 5, the filter requires 1 (or another of 2 alternatives)",
        ),
    ],
    ids=str,
)
def test_a_mismatch_names_the_field_its_value_and_the_condition(source, message):
    assert message in str(parse_filter(source).mismatch(DATA))


def test_evaluation_without_a_report_composes_no_message(monkeypatch):
    monkeypatch.setattr(FILTER_OPERATORS.built_in["$gt"], "wanted", lambda self, operand: pytest.fail("composed"))

    assert not parse_filter({"lines": {"number": {"$gt": 5}}}).holds(DATA)


VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.0, 2, "", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2), st.lists(st.sampled_from("ab"), min_size=1), VALUES)
def test_a_negative_operator_is_the_negation_of_the_positive_one(data, path, operand):
    def holds(condition):
        for name in reversed(path[:4]):
            condition = {name: condition}
        return parse_filter(condition).holds(data)

    assert holds({"$ne": operand}) is not holds({"$eq": operand})
    assert holds({"$nin": [operand]}) is not holds({"$in": [operand]})
    assert holds({"$in": [operand]}) is holds({"$eq": operand})
    assert holds({"$exists": False}) is not holds({"$exists": True})


def test_a_long_value_is_shortened_in_the_message():
    mismatch = parse_filter({"text": "x"}).mismatch({"text": "y" * 5000})

    assert len(str(mismatch)) < 200


def nested(levels):
    return {"a": nested(levels - 1)} if levels else 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "filter: must be an object."),
        ({}, "filter: is empty; name a field and a condition."),
        ({"$gt": 5}, '$gt: must be inside a field, as in {"amount": {"$gt": 100}}.'),
        ({"amount": {"$regex": "x"}}, "amount.$regex: isn't an operator; the operators are $and, $or, $not, $eq"),
        ({"amount": {}}, "amount: is empty; name a field and a condition."),
        ({"amount": {"$gt": True}}, "amount.$gt: must be a number or a string."),
        ({"amount": {"$in": []}}, "amount.$in: must be a list of 1 to 100 values."),
        ({"amount": {"$exists": 1}}, "amount.$exists: must be true or false."),
        ({"amount": {"$startsWith": ""}}, "amount.$startsWith: must be a string that is not empty."),
        ({"$or": {}}, "$or: must be a list of conditions."),
        ({"$or": [{"a": 1}, 5]}, "$or[1]: must be an object."),
        ({"$not": 5}, "$not: must be an object."),
        (nested(12), "is nested too deeply; at most 8 levels."),
        ({"$and": [{"a": 1}] * 65}, "exceeds the limit of 64 conditions."),
        ({"a": "x" * 5000}, "filter: has 5008 bytes; at most 4096."),
        ({"amount": {"$eq": float("nan")}}, "amount.$eq: nan is not a JSON number."),
        ({"a": "\0"}, "a: "),
        ({"a\0": 1}, "filter: has the key a\\0, which "),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_unusable_filter_is_refused_with_its_path(source, message):
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter(source)

    assert message in str(caught.value)


class Line(BaseModel):
    product: str


class Order(BaseModel):
    amount: int
    note: str | None = None
    lines: list[Line]
    labels: dict[str, str] = {}


ORDER = EventType(
    name="order.created", description="…", data_model=Order, example={"amount": 1, "lines": [{"product": "pen"}]}
)


@pytest.mark.parametrize(
    "source",
    [
        {"amount": {"$gt": 1.5}},
        {"note": {"$exists": False}},
        {"note": None},
        {"lines": {"product": {"$startsWith": "p"}}},
        {"labels": {"anything": "x"}},
    ],
    ids=str,
)
def test_a_filter_that_fits_the_data_model_is_accepted(source):
    check_fields(parse_filter(source), {ORDER.name: ORDER.json_schema()})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"amont": 1}, "amont: is not a field of order.created; the fields of data are amount, labels, lines, note."),
        (
            {"lines": {"price": 1}},
            "lines.price: is not a field of order.created; the fields of data.lines are product.",
        ),
        ({"amount": "5"}, "amount.$eq: can match nothing: the type of the field is integer, number."),
        ({"note": {"$gt": 5}}, "note.$gt: can match nothing: the type of the field is null, string."),
        ({"lines": {"product": {"$in": [1, 2]}}}, "lines.product.$in: can match nothing"),
        ({"$or": [{"amount": 1}, {"$not": {"titel": "x"}}]}, "$or[1].$not.titel: is not a field of order.created"),
        ({"lines": {"$and": [{"product": {"$gt": 1}}]}}, "lines.$and[0].product.$gt: can match nothing"),
    ],
    ids=str,
)
def test_a_filter_that_does_not_fit_the_data_model_is_refused(source, message):
    with pytest.raises(InvalidFilterError) as caught:
        check_fields(parse_filter(source), {ORDER.name: ORDER.json_schema()})

    assert message in str(caught.value)


class Card(BaseModel):
    kind: Literal["card"]
    digits: str


class Transfer(BaseModel):
    kind: Literal["transfer"]
    iban: str


class Node(BaseModel):
    label: str
    children: list[Node] = []


Json = TypeAliasType("Json", "list[Json] | dict[str, Json] | str | int")


class Rich(BaseModel):
    payment: Card | Transfer = Field(discriminator="kind")
    payments: list[Annotated[Card | Transfer, Field(discriminator="kind")]]
    place: tuple[float, str]
    pairs: tuple[Line, Card]
    value: JsonValue
    tree: Node
    json_data: Json
    anything: Any
    lists: list[list[int]]


RICH = Rich.model_json_schema(mode="serialization")


@pytest.mark.parametrize(
    "source",
    [
        {"payment": {"digits": "1"}},
        {"payment": {"iban": {"$startsWith": "DE"}}},
        {"payments": {"iban": "DE"}},
        {"place": 1.5},
        {"place": "north"},
        {"pairs": {"product": "pen", "digits": "1"}},
        {"value": {"a": {"b": 1}}},
        {"value": "x"},
        {"tree": {"children": {"children": {"label": "x"}}}},
        {"json_data": {"a": {"b": {"c": 1}}}},
        {"json_data": "x"},
        {"anything": {"a": 1}},
        {"lists": 5},
        {"tree": {"label": {"$not": {"$eq": 5}}}},
    ],
    ids=str,
)
def test_a_filter_that_fits_a_rich_data_model_is_accepted(source):
    check_fields(parse_filter(source), {"rich.made": RICH})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"payment": {"bic": "1"}}, "the fields of data.payment are digits, iban, kind."),
        ({"payments": {"bic": "1"}}, "the fields of data.payments are digits, iban, kind."),
        ({"payment": {"digits": {"$gt": 1}}}, "payment.digits.$gt: can match nothing"),
        ({"tree": {"children": {"name": "x"}}}, "the fields of data.tree.children are children, label."),
        ({"tree": {"label": {"$not": {"$not": {"$eq": 5}}}}}, "tree.label.$not.$not.$eq: can match nothing"),
        ({"place": {"x": 1}}, "place.x: is not a field of rich.made"),
    ],
    ids=str,
)
def test_a_filter_that_does_not_fit_a_rich_data_model_is_refused(source, message):
    with pytest.raises(InvalidFilterError) as caught:
        check_fields(parse_filter(source), {"rich.made": RICH})

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}, "patternProperties": {"^a": {}}},
        {"type": "object", "additionalProperties": True},
        {"type": "array", "items": True},
        {"$ref": "#/$defs/Gone"},
        {"allOf": [{"type": "object", "properties": {}}, {"type": "object", "properties": {"a": {}}}]},
    ],
    ids=str,
)
def test_a_field_that_a_schema_leaves_open_is_accepted(schema):
    root = {"type": "object", "properties": {"value": schema}}

    check_fields(parse_filter({"value": {"a": {"b": 1}}}), {"open.made": root})


def test_a_field_need_only_exist_in_one_of_several_types():
    class Other(BaseModel):
        other: str

    other = EventType(name="other.created", description="…", data_model=Other, example={"other": "x"})

    check_fields(parse_filter({"amount": 1}), {each.name: each.json_schema() for each in (ORDER, other)})
