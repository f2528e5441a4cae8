"""Choosing the recovery of missed events over the API."""

from __future__ import annotations

import pytest

from webhooks_app.models import AuditEntry, Delivery, Webhook
from webhooks_app.protocol.json_data import format_time

from ..support.rows import EVENT_TYPE, URL, emit_one, end_deliveries, make_recovering, make_webhook

pytestmark = pytest.mark.django_db

NEW = {"url": URL, "events": [EVENT_TYPE]}


def test_the_recovery_is_set_and_changed(api):
    plain = api.call("POST", "/v1/webhooks", NEW).json()
    made = api.call("POST", "/v1/webhooks", {**NEW, "recovery": "automatic"}).json()

    changed = api.call("PATCH", f"/v1/webhooks/{made['id']}", {"recovery": "manual"}).json()

    assert [each["recovery"] for each in (plain, made, changed)] == ["manual", "automatic", "manual"]
    assert AuditEntry.objects.get(action="webhook.changed").changes == {"recovery": ["automatic", "manual"]}


@pytest.mark.parametrize("order", ["webhook", "key"])
def test_a_webhook_with_an_order_cannot_recover_automatically(api, alice, order):
    automatic = make_webhook(alice, recovery="automatic")

    answers = (
        api.call("POST", "/v1/webhooks", {**NEW, "order": order, "recovery": "automatic"}),
        api.call("PATCH", f"/v1/webhooks/{automatic.pk}", {"order": order}),
    )

    for answer in answers:
        assert answer.status_code == 400
        (message,) = answer.json()["errors"]["recovery"]
        assert message.startswith("Automatic recovery sends missed events after later ones")


def test_the_first_offered_recovery_is_the_default_of_webhooks_without_an_order(api, settings):
    settings.WEBHOOKS_RECOVERIES = ["automatic", "manual"]

    plain = api.call("POST", "/v1/webhooks", NEW).json()
    ordered = api.call("POST", "/v1/webhooks", {**NEW, "order": "key"}).json()

    assert (plain["recovery"], ordered["recovery"]) == ("automatic", "manual")


def test_a_host_can_forbid_automatic_recovery(api, alice, settings):
    webhook = make_webhook(alice, recovery="automatic")
    settings.WEBHOOKS_RECOVERIES = ["manual"]

    refused = api.call("POST", "/v1/webhooks", {**NEW, "recovery": "automatic"})
    kept = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"description": "as before"}).json()

    assert refused.json()["errors"]["recovery"] == ["automatic: not offered. Choose from manual."]
    assert kept["recovery"] == "automatic"
    assert not Webhook.objects.get(pk=webhook.pk).recovers_itself


def test_the_health_tells_the_next_recovery_attempt(api, alice):
    webhook = make_webhook(alice)
    episode = make_recovering(webhook)

    (listed,) = api.call("GET", "/v1/webhooks").json()["results"]
    shown = api.call("GET", f"/v1/webhooks/{webhook.pk}").json()

    for each in (listed, shown):
        assert each["health"]["next_recovery_at"] == format_time(episode.next_step_at)
        assert each["health"]["recovery_held_by"] == ""


def test_the_health_tells_what_holds_the_recovery_back(api, alice):
    webhook = make_webhook(alice)
    make_recovering(webhook)

    health = api.call("POST", f"/v1/webhooks/{webhook.pk}/pause").json()["health"]

    assert (health["next_recovery_at"], health["recovery_held_by"]) == (None, "webhook")


def test_deliveries_of_events_that_are_still_missed_are_listed(api, alice):
    make_webhook(alice)
    lost, mended = (emit_one(alice).deliveries.get() for _ in range(2))
    end_deliveries(state="given_up")
    mended.refresh_from_db()
    again = mended.redeliver()
    end_deliveries(Delivery.objects.filter(pk=again.pk), state="succeeded")

    found = api.call("GET", "/v1/deliveries?missed=true").json()["results"]

    assert [(each["id"], each["purpose"]) for each in found] == [(lost.pk, None)]
