"""What belongs to others does not exist."""

from __future__ import annotations

import pytest
from django.urls import URLPattern

from tests.making import EVENT_TYPE, emit_one, make_webhook
from webhooks_app.api.routers import ApiRouter
from webhooks_app.models import Delivery, Event, Webhook

pytestmark = pytest.mark.django_db

ROUTES = [
    (method.upper(), pattern.name)
    for pattern in ApiRouter().urls
    if isinstance(pattern, URLPattern) and hasattr(pattern.callback, "actions")
    for method in pattern.callback.actions
    # The catalogue of event types is everybody's.
    if "(?P<" in str(pattern.pattern) and method != "head" and pattern.name != "event-type-detail"
]
ADDRESSES = {
    "webhook-detail": "/v1/webhooks/{webhook}",
    "webhook-deliveries": "/v1/webhooks/{webhook}/deliveries",
    "webhook-disable": "/v1/webhooks/{webhook}/disable",
    "webhook-enable": "/v1/webhooks/{webhook}/enable",
    "webhook-rotate-secret": "/v1/webhooks/{webhook}/rotate-secret",
    "webhook-revoke-previous-secret": "/v1/webhooks/{webhook}/revoke-previous-secret",
    "webhook-verify": "/v1/webhooks/{webhook}/verify",
    "event-detail": "/v1/events/{event}",
    "delivery-detail": "/v1/deliveries/{delivery}",
    "delivery-redeliver": "/v1/deliveries/{delivery}/redeliver",
}
UNKNOWN = {"webhook": "wh_" + "7" * 32, "event": "evt_" + "7" * 32, "delivery": "dlv_" + "7" * 32}


@pytest.fixture
def theirs(bob):
    """The identifiers of what bob owns."""
    webhook, event = make_webhook(bob), emit_one(bob)
    return {"webhook": webhook.id, "event": event.id, "delivery": Delivery.objects.get().id}


def rows():
    return [list(model.objects.order_by("pk").values()) for model in (Webhook, Event, Delivery)]


@pytest.mark.parametrize(("method", "name"), ROUTES, ids=lambda value: value)
def test_anothers_identifier_reads_as_an_unknown_one(api, theirs, method, name):
    address = ADDRESSES[name]
    before = rows()

    foreign = api.call(method, address.format(**theirs), {})
    unknown = api.call(method, address.format(**UNKNOWN), {})

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert foreign.headers == unknown.headers
    assert rows() == before


def test_anothers_webhook_cannot_be_tested(api, theirs):
    answers = [
        api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook_id, "event_type": EVENT_TYPE})
        for webhook_id in (theirs["webhook"], UNKNOWN["webhook"])
    ]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert Event.objects.count() == 1


@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/events"])
def test_lists_hold_nothing_of_others(api, theirs, path):
    assert api.call("GET", path).json() == {"next": None, "previous": None, "results": []}


@pytest.mark.parametrize("direction", ["after", "before"])
def test_a_cursor_at_anothers_row_shows_nothing_of_it(api, alice, theirs, direction):
    mine = make_webhook(alice)

    for position in (theirs["webhook"].removeprefix("wh_"), "0" * 32, "f" * 32):
        found = api.call("GET", f"/v1/webhooks?cursor={direction}.{position}").json()["results"]
        assert {record["id"] for record in found} <= {mine.id}


def test_a_filter_for_anothers_event_finds_nothing(api, alice, theirs):
    webhook = make_webhook(alice)
    emit_one(alice)

    answer = api.call("GET", f"/v1/webhooks/{webhook.id}/deliveries?event_id={theirs['event']}")

    assert answer.json()["results"] == []


def test_the_platforms_own_webhooks_are_nobodys(api, alice):
    webhook = make_webhook(None)
    emit_one(alice)
    delivery = Delivery.objects.get()

    assert api.call("GET", f"/v1/webhooks/{webhook.id}").status_code == 404
    assert api.call("GET", f"/v1/deliveries/{delivery.id}").status_code == 404
    assert api.call("GET", "/v1/webhooks").json()["results"] == []


def test_anothers_tests_do_not_use_up_mine(api, bobs_api, alice, settings):
    settings.WEBHOOKS_VERIFICATION_RATE = "1/min"
    webhook = make_webhook(alice)

    bobs_api.call("POST", f"/v1/webhooks/{webhook.id}/verify")

    assert api.call("POST", f"/v1/webhooks/{webhook.id}/verify").status_code == 202
