"""Isolation of owners: objects of other owners are not found."""

from __future__ import annotations

import re

import pytest
from django.urls import URLPattern

from tests.support.rows import EVENT_TYPE, emit_one, make_webhook, plan_replay, unverified
from webhooks_app.api.routers import ApiRouter
from webhooks_app.models import Delivery, Event, Replay, Webhook

from .conftest import ApiClient

pytestmark = pytest.mark.django_db


def routes():
    """Yield every method and path with an identifier in it, such as ``/v1/webhooks/{webhook}``."""
    for pattern in ApiRouter().urls:
        if isinstance(pattern, URLPattern) and hasattr(pattern.callback, "actions"):
            address = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", str(pattern.pattern).strip("^$").removesuffix("/?"))
            for method in pattern.callback.actions:
                yield method.upper(), f"/v1/{address.replace('_id}', '}')}"


# The catalogue of event types has no owner.
ROUTES = [(method, address) for method, address in routes() if "{" in address and "{name}" not in address]
PREFIXES = {"webhook": "wh", "event": "evt", "delivery": "dlv", "replay": "rpl"}
UNKNOWN = {name: f"{prefix}_{'7' * 32}" for name, prefix in PREFIXES.items()}


@pytest.fixture
def theirs(bob):
    """The identifiers of bob's objects."""
    webhook, event = make_webhook(bob), emit_one(bob)
    replay = plan_replay(webhook)
    return {"webhook": webhook.id, "event": event.id, "delivery": Delivery.objects.get().id, "replay": replay.id}


def rows():
    return [list(model.objects.order_by("pk").values()) for model in (Webhook, Event, Delivery, Replay)]


def document():
    return ApiClient().get("/v1/openapi.json").json()


def alternatives(schema):
    return schema.get("oneOf", [schema])


def test_the_test_covers_every_parameter_for_an_identifier():
    paths, schemas = document()["paths"], document()["components"]["schemas"]
    operations = [(path, operation) for path, item in paths.items() for operation in item.values()]
    bodies = [operation["requestBody"]["content"] for _, operation in operations if "requestBody" in operation]
    forms = [form for body in bodies for form in alternatives(body["application/json"]["schema"])]
    names = {form["$ref"].rpartition("/")[2] for form in forms}
    places = {(p["in"], p["name"]) for _, operation in operations for p in operation.get("parameters", ())}
    places |= {("body", field) for name in names for field in schemas[name]["properties"]}

    assert len(ROUTES) == sum("_id}" in path for path, _ in operations)
    assert {place for place in places if "id" in place[1].split("_") or place[1] in ("cursor", "owner")} == {
        *(("path", "webhook_id"), ("path", "event_id"), ("path", "delivery_id"), ("path", "replay_id")),
        *(("query", "event_id"), ("query", "webhook_id"), ("query", "replay_id"), ("query", "cursor")),
        *(("body", "webhook_id"), ("body", "event_id")),
        ("body", "owner"),  # accepted from service keys only
    }


@pytest.mark.parametrize("slash", ["", "/"], ids=["bare", "slash"])
@pytest.mark.parametrize(("method", "address"), ROUTES, ids=lambda value: value)
def test_another_owners_identifier_is_answered_like_an_unknown_one(api, theirs, method, address, slash):
    before = rows()

    foreign = api.call(method, address.format(**theirs) + slash, {})
    unknown = api.call(method, address.format(**UNKNOWN) + slash, {})

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert foreign.headers == unknown.headers
    assert rows() == before


@pytest.mark.parametrize(("method", "address"), ROUTES, ids=lambda value: value)
def test_isolation_depends_on_the_querysets_only(api, theirs, monkeypatch, method, address):
    for model in (Webhook, Event, Delivery, Replay):
        monkeypatch.setattr(model.objects._queryset_class, "owned_by", lambda queryset, owner: queryset)

    assert api.call(method, address.format(**theirs), {}).status_code != 404


def test_another_owners_webhook_cannot_be_tested(api, theirs):
    answers = [
        api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook_id, "event_type": EVENT_TYPE})
        for webhook_id in (theirs["webhook"], UNKNOWN["webhook"])
    ]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert Event.objects.count() == 1


def test_a_filter_cannot_be_tried_on_another_owners_event(api, alice, theirs):
    path = f"/v1/webhooks/{make_webhook(alice).id}/try-filter"

    answers = [api.call("POST", path, {"event_id": event_id}) for event_id in (theirs["event"], UNKNOWN["event"])]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content


@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/events", "/v1/replays"])
def test_lists_contain_no_rows_of_other_owners(api, theirs, path):
    assert api.call("GET", path).json() == {"next": None, "previous": None, "results": []}


@pytest.mark.parametrize("direction", ["after", "before"])
def test_a_cursor_at_another_owners_row_does_not_reveal_it(api, alice, theirs, direction):
    mine = make_webhook(alice)

    for position in (theirs["webhook"].removeprefix("wh_"), "0" * 32, "f" * 32):
        found = api.call("GET", f"/v1/webhooks?cursor={direction}.{position}").json()["results"]
        assert {record["id"] for record in found} <= {mine.id}


def test_a_filter_for_another_owners_event_finds_nothing(api, alice, theirs):
    webhook = make_webhook(alice)
    emit_one(alice)

    answer = api.call("GET", f"/v1/webhooks/{webhook.id}/deliveries?event_id={theirs['event']}")

    assert answer.json()["results"] == []


def test_no_list_contains_other_owners_deliveries(api, theirs):
    assert api.call("GET", "/v1/deliveries").json()["results"] == []
    for name in ("webhook", "event", "replay"):
        assert api.call("GET", f"/v1/deliveries?{name}_id={theirs[name]}").json()["results"] == []


def test_the_platforms_webhooks_belong_to_no_owner(api, alice):
    webhook = make_webhook(None)
    emit_one(alice)
    delivery = Delivery.objects.get()

    assert api.call("GET", f"/v1/webhooks/{webhook.id}").status_code == 404
    assert api.call("GET", f"/v1/deliveries/{delivery.id}").status_code == 404
    assert api.call("GET", "/v1/webhooks").json()["results"] == []


def test_another_owners_tests_do_not_count_against_the_limit(api, bobs_api, alice, settings):
    settings.WEBHOOKS_VERIFICATION_RATE = "1/min"
    webhook = make_webhook(alice)

    bobs_api.call("POST", f"/v1/webhooks/{webhook.id}/verify")

    assert api.call("POST", f"/v1/webhooks/{unverified(webhook).id}/verify").status_code == 202
