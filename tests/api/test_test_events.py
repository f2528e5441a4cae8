"""Sending a test event: POST /v1/webhooks/test."""

from __future__ import annotations

import json

import pytest

from tests.support.rows import EVENT_TYPE, make_webhook
from webhooks_app.event_types import registry
from webhooks_app.models import Delivery, Event

pytestmark = pytest.mark.django_db


def test_the_answer_names_the_event_and_its_delivery(api, alice):
    webhook = make_webhook(alice, "file.uploaded")

    answer = api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": "user.registered"})

    assert answer.status_code == 202
    assert answer.json() == {"delivery_id": Delivery.objects.get().id, "event_id": Event.objects.get().id}


def test_the_data_is_the_example_of_the_type(api, alice):
    webhook = make_webhook(alice)

    api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": "user.registered"})

    event = Event.objects.get()
    assert (event.is_test, event.owner) == (True, alice)
    assert json.loads(event.body)["data"] == registry.get("user.registered").example


@pytest.mark.parametrize("status", ["pending", "failed", "active"])
def test_a_webhook_need_not_be_active(api, alice, status):
    webhook = make_webhook(alice, status=status)

    answer = api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": EVENT_TYPE})

    assert answer.status_code == 202


def test_a_disabled_webhook_is_not_tested(api, alice):
    webhook = make_webhook(alice, status="disabled")

    answer = api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": EVENT_TYPE})

    assert answer.status_code == 409
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        pytest.param({}, ["webhook_id", "event_type"], id="nothing"),
        pytest.param({"webhook_id": 5, "event_type": EVENT_TYPE}, ["webhook_id"], id="number"),
        pytest.param({"webhook_id": "wh_1", "event_type": None}, ["event_type"], id="null"),
        pytest.param({"webhook_id": "wh_1", "event_type": "webhook.retry"}, ["event_type"], id="internal type"),
        pytest.param({"webhook_id": "wh_1", "event_type": "file.eaten"}, ["event_type"], id="unknown type"),
    ],
)
def test_an_invalid_field_is_named(api, body, fields):
    answer = api.call("POST", "/v1/webhooks/test", body)

    assert (answer.status_code, list(answer.json()["errors"])) == (400, fields)


def test_an_unknown_type_is_answered_with_the_known_types(api):
    answer = api.call("POST", "/v1/webhooks/test", {"webhook_id": "wh_1", "event_type": "file.uploadet"})

    (message,) = answer.json()["errors"]["event_type"]
    assert "Did you mean file.uploaded?" in message


@pytest.mark.parametrize("webhook_id", ["wh_" + "0" * 32, "wh_1", "x", "☃", "evt_" + "0" * 32, " "], ids=repr)
def test_an_unknown_webhook_is_not_found(api, webhook_id):
    answer = api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook_id, "event_type": EVENT_TYPE})

    assert answer.status_code == 404


def test_test_in_the_url_is_not_an_identifier(api):
    answer = api.call("GET", "/v1/webhooks/test")

    assert (answer.status_code, answer["Allow"]) == (405, "POST")
