"""Authentication and scopes of API keys."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.support.rows import EVENT_TYPE, URL, emit_one, end_deliveries, make_webhook, unverified
from webhooks_app.models import ApiKey, Delivery, Event, Webhook
from webhooks_app.pages.actions import DELIVERY, WEBHOOK

from .conftest import PROBLEM, ApiClient, client_of

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]


@pytest.fixture
def key(alice):
    """The text of a valid key."""
    return ApiKey.objects.make(owner=alice)[1]


def test_a_valid_key_authenticates_its_owner(key):
    assert ApiClient(key).call("GET", "/v1/webhooks").status_code == 200


def test_the_scheme_is_case_insensitive(key):
    assert ApiClient().get("/v1/webhooks", headers={"authorization": f"bearer  {key} "}).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("Bearer", id="no key"),
        pytest.param("Bearer wrong", id="wrong"),
        pytest.param("Bearer {key}x", id="too long"),
        pytest.param("Bearer {key},Bearer {key}", id="two headers, joined by a comma"),
        pytest.param("Bearer {key} {key}", id="two keys"),
        pytest.param("Bearer whk_{key}", id="prefix twice"),
        pytest.param("Bearer whk_\x00_{key}", id="NUL"),
        pytest.param("Bearer whk_\xff_{key}", id="not ASCII"),
        pytest.param("Token {key}", id="another scheme"),
        pytest.param("{key}", id="no scheme"),
        pytest.param("Basic {key}", id="basic"),
    ],
)
def test_without_a_valid_key_the_answer_is_401(key, authorization):
    headers = {} if authorization is None else {"authorization": authorization.format(key=key)}

    answer = ApiClient().get("/v1/webhooks", headers=headers)

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer["Content-Type"] == PROBLEM
    assert key not in answer.text


@pytest.mark.parametrize("authorization", ["{key}", "Token {key}", "ApiKey {key}"])
def test_a_key_without_bearer_is_answered_with_the_right_header(key, authorization):
    answer = ApiClient().get("/v1/webhooks", headers={"authorization": authorization.format(key=key)})

    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.json()["detail"] == "Send the API key as `Authorization: Bearer <key>`."


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "authorization", "token"])
def test_a_key_in_the_query_is_ignored(key, name):
    assert ApiClient().get("/v1/webhooks", {name: key}).status_code == 401


def test_a_session_does_not_authenticate(alice):
    client = ApiClient()
    client.force_login(alice)

    assert client.get("/v1/webhooks").status_code == 401


@pytest.mark.parametrize(
    "withdraw",
    [
        pytest.param(lambda api_key: api_key.revoke(), id="revoked"),
        pytest.param(lambda api_key: ApiKey.objects.update(expires_at=timezone.now()), id="expired"),
        pytest.param(lambda api_key: type(api_key.owner).objects.update(is_active=False), id="inactive account"),
        pytest.param(lambda api_key: api_key.delete(), id="deleted"),
    ],
)
def test_a_withdrawn_key_is_refused_immediately(alice, withdraw):
    api = client_of(alice)
    assert api.call("GET", "/v1/webhooks").status_code == 200

    withdraw(ApiKey.objects.get())

    answer = api.call("GET", "/v1/webhooks")
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")


def test_all_401_answers_are_equal(alice):
    revoked, expired = client_of(alice), client_of(alice, expires_at=timezone.now() - timedelta(days=1))
    ApiKey.objects.get(expires_at=None).revoke()

    answers = {client.call("GET", "/v1/webhooks").content for client in (revoked, expired, ApiClient("wrong"))}

    assert len(answers) == 1


def test_the_use_of_a_key_is_recorded(api):
    before = timezone.now()

    api.call("GET", "/v1/webhooks")

    assert ApiKey.objects.get().last_used_at >= before


def test_the_use_of_a_refused_key_is_not_recorded(alice):
    api = client_of(alice, expires_at=timezone.now())

    api.call("GET", "/v1/webhooks")

    assert ApiKey.objects.get().last_used_at is None


SCOPES = {
    "webhooks:read": [
        ("GET", "/v1/webhooks"),
        ("GET", "/v1/webhooks/{webhook}"),
        ("GET", "/v1/webhooks/{webhook}/deliveries"),
        ("GET", "/v1/deliveries"),
        ("GET", "/v1/deliveries/{delivery}"),
    ],
    "webhooks:write": [
        ("POST", "/v1/webhooks"),
        ("PATCH", "/v1/webhooks/{webhook}"),
        ("POST", "/v1/webhooks/{webhook}/rotate-secret"),
        ("POST", "/v1/webhooks/{webhook}/activate-secret"),
        ("POST", "/v1/webhooks/{webhook}/withdraw-secret"),
        ("POST", "/v1/webhooks/{webhook}/revoke-previous-secret"),
        ("POST", "/v1/webhooks/{webhook}/enable"),
        ("POST", "/v1/webhooks/{webhook}/pause"),
        ("POST", "/v1/webhooks/{webhook}/resume"),
        ("POST", "/v1/deliveries/{delivery}/redeliver"),
        ("POST", "/v1/deliveries/{delivery}/retry"),
        ("POST", "/v1/webhooks/{webhook}/disable"),
        ("DELETE", "/v1/webhooks/{webhook}"),
    ],
    "webhooks:test": [("POST", "/v1/webhooks/test"), ("POST", "/v1/webhooks/{webhook}/verify")],
    "events:read": [("GET", "/v1/events"), ("GET", "/v1/events/{event}")],
}
CALLS = [(scope, *call) for scope, calls in SCOPES.items() for call in calls]


def body_of(method, path, webhook):
    if path == "/v1/webhooks" and method == "POST":
        return {"url": URL, "events": [EVENT_TYPE]}
    return {"webhook_id": webhook.id, "event_type": EVENT_TYPE} if path == "/v1/webhooks/test" else None


@pytest.mark.parametrize(
    ("row", "table"),
    [("webhooks/{webhook}", WEBHOOK), ("deliveries/{delivery}", DELIVERY)],
    ids=["webhook", "delivery"],
)
def test_the_scope_of_each_action_is_known(row, table):
    routes = {f"/v1/{row}/{name.replace('_', '-')}" for name, action in table.items() if action.meaning}

    assert routes <= {path for _scope, _method, path in CALLS}


@pytest.mark.parametrize(("scope", "method", "path"), CALLS, ids=lambda value: value)
def test_an_operation_requires_only_its_own_scope(alice, scope, method, path):
    webhook = make_webhook(alice)
    emit_one(alice)
    path = path.format(webhook=webhook.id, event=Event.objects.get().id, delivery=Delivery.objects.get().id)
    body = body_of(method, path, webhook)
    if path.endswith("/redeliver"):
        end_deliveries(state="given_up")
    elif path.endswith("/verify"):
        unverified(webhook)
    elif path.endswith("/resume"):
        webhook.pause()

    refused = client_of(alice, scopes=sorted(set(SCOPES) - {scope})).call(method, path, body)
    allowed = client_of(alice, scopes=[scope]).call(method, path, body)

    assert refused.status_code == 403
    assert refused.json()["detail"] == f"This API key lacks the scope {scope}."
    assert allowed.status_code < 300


def test_a_missing_scope_does_not_reveal_existing_objects(alice):
    webhook = make_webhook(alice)
    api = client_of(alice, scopes=["events:read"])

    answers = [api.call("GET", f"/v1/webhooks/{webhook_id}") for webhook_id in (webhook.id, "wh_" + "0" * 32)]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].content == answers[1].content


def test_the_catalogue_needs_no_scope(alice):
    assert client_of(alice, scopes=["webhooks:test"]).call("GET", "/v1/event-types").status_code == 200


def test_staff_see_only_their_own_webhooks(alice, bob):
    make_webhook(alice)
    bob.is_staff = bob.is_superuser = True
    bob.save()

    assert client_of(bob).call("GET", "/v1/webhooks").json()["results"] == []
    assert Webhook.objects.count() == 1
