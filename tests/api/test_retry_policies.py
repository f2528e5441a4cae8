"""Choosing a retry policy and the accepted statuses over the API."""

from __future__ import annotations

import pytest

from webhooks_app.models import AuditEntry, Delivery, Webhook

from ..support.rows import EVENT_TYPE, URL, emit_one, make_webhook

pytestmark = pytest.mark.django_db

NEW = {"url": URL, "events": [EVENT_TYPE]}


def errors(answer):
    assert answer.status_code == 400
    return answer.json()["errors"]


def test_the_default_policy_is_that_of_the_specification(api, alice):
    made = api.call("POST", "/v1/webhooks", NEW).json()
    Webhook.objects.update(status="active")

    emit_one(alice)

    assert (made["retry_policy"], made["accepted_statuses"]) == ("", "200")
    assert set(Delivery.objects.values_list("max_attempts", "retry_policy")) == {(4, "")}


def test_the_policy_and_the_statuses_can_be_set_and_changed(api):
    made = api.call("POST", "/v1/webhooks", {**NEW, "retry_policy": "extended", "accepted_statuses": "2xx"}).json()

    changed = api.call("PATCH", f"/v1/webhooks/{made['id']}", {"retry_policy": "", "accepted_statuses": "200"}).json()

    assert [(each["retry_policy"], each["accepted_statuses"]) for each in (made, changed)] == [
        ("extended", "2xx"),
        ("", "200"),
    ]
    entry = AuditEntry.objects.get(action="webhook.changed")
    assert entry.changes == {"retry_policy": ["extended", ""], "accepted_statuses": ["2xx", "200"]}


def test_a_delivery_shows_its_policy_and_keeps_it(api, alice):
    webhook = make_webhook(alice, retry_policy="extended")
    emit_one(alice)

    api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"retry_policy": "specification"})
    emit_one(alice)

    listed = api.call("GET", f"/v1/webhooks/{webhook.pk}/deliveries").json()["results"]
    assert sorted((each["retry_policy"], each["max_attempts"]) for each in listed) == [
        ("extended", 10),
        ("specification", 4),
    ]


def test_the_values_that_can_be_chosen_are_explained(api, settings):
    settings.WEBHOOKS_SIGNATURES = ["native"]

    answer = api.call("GET", "/v1/webhooks/choices")

    assert answer.status_code == 200
    (scheme,) = answer.json()["signatures"]
    assert (scheme["name"], scheme["headers"][0]) == ("native", "X-Webhook-Signature")
    assert [(each["name"], each["max_attempts"]) for each in answer.json()["retry_policies"]] == [
        ("specification", 4),
        ("extended", 10),
    ]
    assert answer.json()["accepted_statuses"] == ["200", "2xx"]


def test_the_sender_can_be_recognised(api, settings):
    settings.WEBHOOKS_USER_AGENT, settings.WEBHOOKS_EGRESS_ADDRESSES = "Acme/1", ["203.0.113.7"]

    sender = api.call("GET", "/v1/webhooks/choices").json()["sender"]

    assert sender == {"user_agent": "Acme/1", "addresses": ["203.0.113.7"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"retry_policy": "never mind"}, "retry_policy", id="unknown policy"),
        pytest.param({"retry_policy": 3}, "retry_policy", id="number"),
        pytest.param({"accepted_statuses": "204"}, "accepted_statuses", id="single status"),
        pytest.param({"accepted_statuses": None}, "accepted_statuses", id="null"),
    ],
)
def test_an_unknown_choice_is_refused(api, body, field):
    assert errors(api.call("POST", "/v1/webhooks", {**NEW, **body}))[field]


def test_only_offered_policies_can_be_chosen(api, alice, settings):
    webhook = make_webhook(alice, retry_policy="extended")
    settings.WEBHOOKS_RETRY_POLICIES = ["specification"]

    refused = api.call("POST", "/v1/webhooks", {**NEW, "retry_policy": "extended"})
    kept = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"description": "still patient"})

    assert errors(refused)["retry_policy"] == ["extended: not offered. Choose from specification."]
    assert kept.json()["retry_policy"] == "extended"
