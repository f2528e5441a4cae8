"""Each toy is added by one setting, chosen over the API, and decides what a receiver gets."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from webhooks_app.emission import emit
from webhooks_app.exceptions import InvalidOwnerError
from webhooks_app.models import Delivery
from webhooks_app.testing import Webhooks

from ..api.conftest import ApiClient, client_of
from ..support.rows import EVENT_TYPE, URL, emit_one
from .signature import HEADER, checksum

pytestmark = pytest.mark.django_db

NEW = {"url": URL, "events": [EVENT_TYPE], "retry_notices": False}


@pytest.fixture
def api(alice: Any) -> ApiClient:
    return client_of(alice)


def register(api: ApiClient, webhooks: Webhooks, **choices: Any) -> dict[str, Any]:
    """Create a webhook over the API, and pass its verification."""
    made = api.call("POST", "/v1/webhooks", {**NEW, **choices})
    assert made.status_code == 201, made.json()
    webhooks.deliver()
    shown: dict[str, Any] = api.call("GET", f"/v1/webhooks/{made.json()['id']}").json()
    assert shown["status"] == "active"
    return shown


def test_a_signature_scheme(api: ApiClient, alice: Any, webhooks: Webhooks, settings: Any) -> None:
    settings.WEBHOOKS_SIGNATURES = ["native", "tests.toys.signature.ChecksumSignature"]
    webhook = register(api, webhooks, signatures=["native", "checksum"])
    answer = api.call("POST", f"/v1/webhooks/{webhook['id']}/rotate-secret", {"scheme": "checksum"}).json()

    emit_one(alice)
    (request,) = webhooks.deliver()

    new, previous = request.headers[HEADER].split()
    timestamp = int(request.headers["X-Toy-Time"])
    assert answer["secret"].startswith("toy_")
    assert new == checksum(answer["secret"], timestamp, request.body) != previous
    assert request.headers["X-Webhook-Signature"].startswith("sha256=")


def test_a_signature_scheme_alone(api: ApiClient, alice: Any, webhooks: Webhooks, settings: Any) -> None:
    settings.WEBHOOKS_SIGNATURES = ["tests.toys.signature.ChecksumSignature"]
    register(api, webhooks, signatures=["checksum"])

    emit_one(alice)
    (request,) = webhooks.deliver()

    assert "X-Webhook-Signature" not in request.headers
    assert request.headers[HEADER]


def test_a_retry_policy(api: ApiClient, alice: Any, webhooks: Webhooks, settings: Any) -> None:
    settings.WEBHOOKS_RETRY_POLICIES = ["specification", "tests.toys.retry_policy.DoublingPolicy"]
    webhook = register(api, webhooks, retry_policy="doubling")
    webhooks.receiver.answers = (500,)

    emit_one(alice)
    received = webhooks.deliver()

    gaps = [(after.at - before.at) // timedelta(seconds=1) for before, after in pairwise(received)]
    (delivery,) = api.call("GET", f"/v1/webhooks/{webhook['id']}/deliveries?kind=event").json()["results"]
    assert gaps == [20, 40]
    assert (delivery["retry_policy"], delivery["max_attempts"], delivery["state"]) == ("doubling", 3, "given_up")


def test_a_filter_operator(api: ApiClient, alice: Any, webhooks: Webhooks, settings: Any) -> None:
    settings.WEBHOOKS_FILTER_OPERATORS = ["$eq", "tests.toys.filter_operator.PalindromeOperator"]
    register(api, webhooks, filter={"error": {"$palindrome": True}})

    refused = emit_one(alice, "bob!")
    emit_one(alice, "anna")
    (request,) = webhooks.deliver()

    assert request.event.data == {"error": "anna"}
    (decision,) = api.call("GET", f"/v1/events/{refused.pk}/decisions").json()["results"]
    assert decision["detail"] == 'data.error is "bob!", the filter requires a palindrome'


def test_an_owner_policy(api: ApiClient, alice: Any, webhooks: Webhooks, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.toys.owners.PayingOwners"
    service = client_of(None, scopes=["events:emit"])
    event = {"type": EVENT_TYPE, "owner": str(alice.pk), "data": {"error": "No outline"}}
    refused = [api.call("POST", "/v1/webhooks", NEW), service.call("POST", "/v1/events", event)]
    alice.last_name = "small"
    alice.save()

    register(api, webhooks)
    hidden = api.call("POST", "/v1/webhooks", {**NEW, "events": ["file.deleted"]})
    service.call("POST", "/v1/events", event)
    (request,) = webhooks.deliver()

    assert [answer.status_code for answer in (*refused, hidden)] == [400, 400, 400]
    assert "no plan with webhooks" in refused[1].json()["errors"]["owner"][0]
    assert request.event.data == event["data"]


def test_an_owner_policy_refuses_an_emit_of_the_project(alice: Any, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.toys.owners.PayingOwners"

    with pytest.raises(InvalidOwnerError, match="no plan"):
        emit(EVENT_TYPE, {"error": "No outline"}, owner=alice)

    assert not Delivery.objects.exists()
