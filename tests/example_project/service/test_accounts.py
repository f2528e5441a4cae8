"""Registration and subscription, with their events."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from webhooks_app import register_webhook
from webhooks_app.models import Delivery, Event, Webhook

PASSWORD = "correct horse battery"


def _register(client, **changes):
    content = {"username": "bela", "password": PASSWORD, **changes}
    return client.post("/v1/users", content, content_type="application/json")


def test_a_registered_user_can_log_in(client):
    answer = _register(client)

    user = get_user_model().objects.get(username="bela")
    assert answer.status_code == 201
    assert answer.json() == {"id": f"user_{user.pk}", "username": "bela"}
    assert client.login(username="bela", password=PASSWORD)


def test_a_registration_reaches_only_the_platforms_webhook(client, amina):
    urls = {"platform": "https://platform.example/hook", "amina": "https://amina.example/hook"}
    register_webhook(owner=None, url=urls["platform"], event_types=["user.registered"])
    register_webhook(owner=amina.user, url=urls["amina"], event_types=["user.registered"])
    Webhook.objects.update(status="active")

    user_id = _register(client).json()["id"]

    event = Event.objects.get(type="user.registered")
    assert event.data == {"user_id": user_id, "username": "bela"}
    sent_to = Delivery.objects.filter(event=event).values_list("webhook__url", flat=True)
    assert list(sent_to) == [urls["platform"]]


def test_a_change_of_an_account_emits_no_registration(amina):
    amina.user.first_name = "Amina"
    amina.user.save()

    assert amina.events() == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"username": "amina"}, "username", id="taken"),
        pytest.param({"username": ""}, "username", id="no name"),
        pytest.param({"password": "12345678"}, "password", id="common password"),
        pytest.param({"password": "belabela", "username": "belabela"}, "password", id="password like the name"),
        pytest.param({"email": "no address"}, "email", id="bad address"),
    ],
)
def test_an_invalid_registration_names_the_field(client, amina, changes, field):
    answer = _register(client, **changes)

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]
    assert get_user_model().objects.count() == 1


def test_registrations_from_one_address_are_limited(client):
    statuses = [_register(client, username="").status_code for _ in range(31)]

    assert statuses == [400] * 30 + [429]


def test_a_subscription_emits_an_event_and_is_shown(amina):
    answer = amina.post("/v1/subscription", {"plan": "pro"})

    assert answer.status_code == 201
    assert amina.get("/v1/subscription").json()["plan"] == "pro"
    assert amina.events() == [("user.subscribed", {"user_id": amina.id, "plan": "pro"})]


def test_a_second_subscription_is_a_conflict_without_an_event(amina):
    amina.post("/v1/subscription", {"plan": "pro"})

    assert amina.post("/v1/subscription", {"plan": "team"}).status_code == 409
    assert amina.event_types() == ["user.subscribed"]


def test_an_ended_subscription_emits_one_event(amina):
    amina.post("/v1/subscription", {"plan": "pro"})

    answers = [amina.delete("/v1/subscription").status_code for _ in range(2)]

    assert answers == [204, 404]
    assert amina.events()[1:] == [("user.unsubscribed", {"user_id": amina.id, "plan": "pro"})]


def test_an_unknown_plan_is_refused(amina):
    answer = amina.post("/v1/subscription", {"plan": "gold"})

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["plan"]
