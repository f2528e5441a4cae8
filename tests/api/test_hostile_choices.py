"""Hostile values of a webhook's choices: each is refused with one message, at creation and at a change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..support.rows import EVENT_TYPE, make_webhook
from .conftest import PROBLEM

pytestmark = pytest.mark.django_db

NEW = {"url": "https://receiver.example.com/hooks", "events": [EVENT_TYPE]}
LONG = "x" * 5000
MAX_MESSAGE = 400


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = {"error": inner}
    return inner


WRONG_TYPES = [5, -0.5, True, [], [[]], [{}], "\ud83d\ude00"]

HOSTILE = {
    "filter": [
        *(5, True, "error", [], [{}], {}, {"$and": {}}, {"$and": []}, {"$or": [1]}, {"$not": []}, {"": 1}),
        *({"error": {"$gt": None}}, {"error": {"$gt": True}}, {"error": {"$gt": {}}}, {"error": {"$regex": "(a+)+$"}}),
        *({"$gt": 1}, {"$where": "1"}, {"error": {"$in": []}}, {"error": {"$in": [1] * 101}}, {"error": {}}),
        *(
            {"error": {"$exists": "true"}},
            {"error": {"$startsWith": ""}},
            {"nowhere": 1},
            {LONG: 1},
            {"x" * 3000: 1},
            {"error": {"$" + "x" * 3000: 1}},
            {"error": LONG},
        ),
        *({"error": {"$gt": 1, "$lt": "b", "$nowhere": 2}}, {"error": 1}, nested(9), nested(30), nested(100)),
        *({f"e{n}": n for n in range(10_000)}, {"$or": [{"error": "a"}] * 65}, {"error": "a\0b"}, {"a\0b": 1}),
        {"$and": [{"error": {"$gt": 1}}, {"error": {"$nowhere": 2}}]},
    ],
    "headers": [
        *(5, True, "X-A: 1", [], [["X-A", "1"]], None, {"": "1"}, {"X A": "1"}, {"X-A": ""}, {"X-A": "a\r\nX-B: 1"}),
        *({"X-A": None}, {"X-A": 5}, {"X-A": ["1"]}, {"X-A": {}}, {"X-A": 1, "X-B": 2}, {"Host": "a", "X-B": "\n"}),
        *({"X-A": "1", "x-a": "2"}, {"Host": "a"}, {"Proxy-Authorization": "a"}, {"webhook-id": "a"}, {LONG: "1"}),
        *({"X-A": LONG}, {"X-A": "\u00e4"}, {"X-A": "a\0b"}, {"X-A\0": "1"}, {f"X-{n}": "" for n in range(5000)}),
        *({f"X-{n}": "1" for n in range(21)}, {"X-A": nested(100)}),
    ],
    "retry_policy": [*WRONG_TYPES, None, {}, "never mind", "extended ", "EXTENDED", LONG, "a\0b", nested(100)],
    "order": [*WRONG_TYPES, None, {}, "", "newest", "KEY", LONG, "a\0b", nested(100)],
    "recovery": [*WRONG_TYPES, None, {}, "", "never", "MANUAL", LONG, "a\0b", nested(100)],
    "accepted_statuses": [*WRONG_TYPES, None, {}, "", "204", 200, LONG, "a\0b", nested(100)],
    "signatures": [
        *(5, True, "native", {}, None, [], [5], [None], [[]], [{}], [""], ["quantum"], ["native", 5], ["native", "x"]),
        *(["native", "quantum", "quantum"], ["native"] * 9, ["native"] * 10_000, [LONG], ["a\0b"], nested(100)),
    ],
}
CASES = [
    pytest.param(field, value, id=f"{field}-{json.dumps(value)[:40]}")
    for field, values in HOSTILE.items()
    for value in values
]


def assert_one_message(answer: Any, field: str) -> None:
    assert answer.status_code in (400, 413), answer.content
    assert answer.headers["Content-Type"] == PROBLEM
    problem = answer.json()
    if "errors" not in problem:  # the body is too large, or no JSON
        assert answer.status_code == 413 or "nested deeper" in problem["detail"]
        return
    ((path, messages),) = problem["errors"].items()
    assert path == field or path.startswith((f"{field}[", f"{field}."))
    (message,) = messages
    assert message.endswith(".")
    assert message.isprintable()
    assert len(message) < MAX_MESSAGE


@pytest.mark.parametrize(("field", "value"), CASES)
def test_a_hostile_value_is_refused_with_one_message(api: Any, alice: Any, field: str, value: Any) -> None:
    webhook = make_webhook(alice)

    for method, path, given in (("POST", "/v1/webhooks", NEW), ("PATCH", f"/v1/webhooks/{webhook.pk}", {})):
        assert_one_message(api.call(method, path, {**given, field: value}), field)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        pytest.param(b'{"filter": {"error": NaN}}', "NaN is not a JSON number", id="NaN"),
        pytest.param(b'{"headers": {"X-A": Infinity}}', "Infinity is not a JSON number", id="Infinity"),
        pytest.param(b'{"headers": {"X-A": "1", "X-A": "2"}}', "a key twice", id="header twice"),
        pytest.param(b'{"filter": {"error": 1, "error": 2}}', "a key twice", id="field twice"),
        pytest.param(b'{"order": "key", "order": "none"}', "a key twice", id="order twice"),
    ],
)
def test_a_choice_that_is_not_json_is_refused(api: Any, alice: Any, body: bytes, detail: str) -> None:
    webhook = make_webhook(alice)

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", body)

    assert answer.status_code == 400
    assert detail in answer.json()["detail"]


def test_an_error_of_the_whole_filter_names_the_filter(api: Any) -> None:
    answer = api.call("POST", "/v1/webhooks", {**NEW, "filter": []})

    assert answer.json()["errors"] == {"filter": ["The filter must be an object."]}


@pytest.mark.parametrize("path", ["amount.$gt", "amount.$and[1].$lt"])
def test_an_error_in_a_filter_names_its_path(api: Any, path: str) -> None:
    wrong = {"$gt": None} if path == "amount.$gt" else {"$and": [{"$gt": 1}, {"$lt": None}]}

    answer = api.call("POST", "/v1/webhooks", {**NEW, "filter": {"amount": wrong}})

    assert answer.json()["errors"] == {"filter": [f"{path}: must be a number or a string."]}
