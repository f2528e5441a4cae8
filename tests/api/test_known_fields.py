"""Fields that an operation does not have, in every body."""

from __future__ import annotations

import time

import pytest

from tests.support.rows import emit_one, make_webhook, plan_replay
from webhooks_app.api.routers import ApiRouter
from webhooks_app.models import Delivery, Webhook

pytestmark = pytest.mark.django_db

NEW = {"url": "https://hooks.example.com/ppt", "events": ["file.deleted"]}


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("retrypolicy", "retry_policy"),
        ("filtre", "filter"),
        ("URL", "url"),
        ("event_types", "events"),
        ("basicauth", "basic_auth"),
    ],
)
def test_a_misspelt_field_of_a_new_webhook_is_refused_with_the_nearest_one(api, wrong, nearest):
    answer = api.call("POST", "/v1/webhooks", {**NEW, wrong: {}})

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [wrong]
    assert f"Did you mean {nearest}?" in answer.json()["errors"][wrong][0] or nearest in NEW
    assert Webhook.objects.count() == 0


def test_unknown_fields_are_reported_with_the_other_errors(api):
    answer = api.call("POST", "/v1/webhooks", {"url": 7, "filtre": {}, "basic_auth": {"user": "a", "username": ""}})

    errors = answer.json()["errors"]
    assert set(errors) == {"url", "events", "filtre", "basic_auth.user", "basic_auth.username", "basic_auth.password"}
    assert errors["basic_auth.user"] == ["Unknown field. Did you mean username?"]


def test_every_operation_refuses_unknown_fields_and_parameters(api, service, alice):
    replay = plan_replay(make_webhook(alice))
    event = emit_one(alice)
    found = {"webhook_id": replay.webhook_id, "event_id": event.id, "delivery_id": Delivery.objects.get().id}
    paths = routes({**found, "replay_id": replay.id})

    refused = {}
    for method, path in paths:
        client = service if path == "/v1/events" else api
        answers = [client.call(method, path, {"zzz": 1}), client.call(method, f"{path}?zzz=1", {})]
        refused[path] = [(answer.status_code, list(answer.json().get("errors", ()))) for answer in answers]

    expected = [400, 400]
    assert len(refused) > 15
    assert {path: seen for path, seen in refused.items() if [status for status, _ in seen] != expected} == {}
    assert {path: seen for path, seen in refused.items() if not all("zzz" in names for _, names in seen)} == {}


def routes(identifiers):
    """Return the method and the path of every operation with a body."""
    found = []
    for pattern in ApiRouter().urls:
        path = str(pattern.pattern).removeprefix("^").removesuffix("/?$")
        for name, value in identifiers.items():
            path = path.replace(f"(?P<{name}>[^/]+)", value)
        actions = getattr(pattern.callback, "actions", ())
        found += [(method.upper(), f"/v1/{path}") for method in actions if method in ("post", "patch")]
    return found


def test_thousands_of_unknown_fields_cost_no_time(api):
    body = {**NEW, **{f"field_{number}_of_many": 1 for number in range(2000)}}

    began = time.monotonic()
    answer = api.call("POST", "/v1/webhooks", body)

    assert (answer.status_code, len(answer.json()["errors"])) == (400, 20)
    assert time.monotonic() - began < 5


def test_the_name_of_an_unknown_field_is_shown_briefly(api):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "x" * 5000: 1})

    (shown,) = answer.json()["errors"]
    assert shown == "x" * 60 + "…"
