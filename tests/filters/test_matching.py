"""Filters: their operators, their errors, and the check against data models."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from webhooks_app.choices import parse_filter
from webhooks_app.event_types import EventType
from webhooks_app.exceptions import InvalidFilterError
from webhooks_app.filters import check_fields

DATA: dict[str, Any] = {
    "amount": 5,
    "price": 1.0,
    "name": "Ada",
    "is_paid": True,
    "nothing": None,
    "customer": {"country": "DE", "age": 30},
    "tags": ["new", "vip"],
    "lines": [{"product": "pen", "number": 2}, {"product": "cup", "number": 1}],
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
    assert (parse_filter(source).mismatch(DATA) is None) == matches


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"amount": {"$gt": 100}}, "data.amount is 5, the filter requires more than 100"),
        ({"customer": {"country": "FR"}}, 'data.customer.country is "DE", the filter requires "FR"'),
        ({"missing": "x"}, 'data.missing is missing, the filter requires "x"'),
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
        ({"amount": {"$regex": "x"}}, "amount.$regex: is no operator; the operators are $and, $or, $not, $eq"),
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
    ],
    ids=str,
)
def test_a_filter_that_does_not_fit_the_data_model_is_refused(source, message):
    with pytest.raises(InvalidFilterError) as caught:
        check_fields(parse_filter(source), {ORDER.name: ORDER.json_schema()})

    assert message in str(caught.value)


def test_a_field_need_only_exist_in_one_of_several_types():
    class Other(BaseModel):
        other: str

    other = EventType(name="other.created", description="…", data_model=Other, example={"other": "x"})

    check_fields(parse_filter({"amount": 1}), {each.name: each.json_schema() for each in (ORDER, other)})
