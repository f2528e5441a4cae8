"""Choosing an order over the API, and the hold of a delivery behind another."""

from __future__ import annotations

import pytest

from webhooks_app import emit
from webhooks_app.models import AuditEntry, Delivery, QueueEntry, QueueLane

from ..support.rows import EVENT_TYPE, URL, make_webhook

pytestmark = pytest.mark.django_db

NEW = {"url": URL, "events": [EVENT_TYPE]}


def test_an_order_is_set_and_changed(api):
    plain = api.call("POST", "/v1/webhooks", NEW).json()
    made = api.call("POST", "/v1/webhooks", {**NEW, "order": "key"}).json()

    changed = api.call("PATCH", f"/v1/webhooks/{made['id']}", {"order": "webhook"}).json()

    assert [each["order"] for each in (plain, made, changed)] == ["none", "key", "webhook"]
    assert AuditEntry.objects.get(action="webhook.changed").changes == {"order": ["key", "webhook"]}


@pytest.mark.parametrize("order", ["newest", "", None, 1])
def test_an_order_that_does_not_exist_is_refused(api, order):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "order": order})

    assert answer.status_code == 400
    assert answer.json()["errors"]["order"]


def test_only_offered_orders_can_be_chosen(api, alice, settings):
    webhook = make_webhook(alice, order="key")
    settings.WEBHOOKS_ORDERS = ["none"]

    refused = api.call("POST", "/v1/webhooks", {**NEW, "order": "webhook"})
    kept = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"description": "still in order"})

    assert refused.json()["errors"]["order"] == ["webhook: not offered. Choose from none."]
    assert kept.json()["order"] == "key"


def test_a_delivery_names_the_one_before_it(api, alice):
    webhook = make_webhook(alice, order="key")
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    events = [emit(EVENT_TYPE, {"error": "a"}, owner=alice, ordering_key="ppt_1") for _ in range(2)]
    first, second = (Delivery.objects.get(event=event) for event in events)
    QueueEntry.objects.filter(pk=second.pk).update(due_at=None)

    shown = api.call("GET", f"/v1/deliveries/{second.pk}").json()

    assert shown["hold"] == {"reason": "ordered", "since": None, "until": None, "delivery_id": first.pk}
    assert shown["next_attempt_at"] is None
    assert api.call("GET", f"/v1/events/{events[0].pk}").json()["ordering_key"] == "ppt_1"
