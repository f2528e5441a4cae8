"""The owner's view of events, deliveries and attempts."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook, unverified
from webhooks_app import send_test_event
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.protocol.json_data import format_time
from webhooks_app.signals import deliveries_created

pytestmark = pytest.mark.django_db

BODY = "the receiver's body"
PEER = "10.9.8.7"


@pytest.fixture
def webhook(alice):
    return make_webhook(alice)


@pytest.fixture
def delivery(alice, webhook):
    """A delivery that was answered with 500 and will be retried."""
    emit_one(alice)
    delivery = Delivery.objects.get()
    Delivery.objects.update(attempt_count=1)
    QueueEntry.objects.update(attempt=2, claimed_at=timezone.now())
    DeliveryAttempt.objects.create(
        delivery=delivery,
        number=1,
        result="http_status",
        message="Answered with status 500.",
        started_at=timezone.now(),
        duration_ms=12,
        url=webhook.url,
        timestamp=1769860800,
        signatures="sha256=" + "0" * 64,
        response_status=500,
        response_headers=[["Content-Type", "text/plain"]],
        response_body=BODY,
        retry_after="120",
        peer=PEER,
    )
    return delivery


def test_an_event_is_listed_without_its_data(api, alice):
    event = emit_one(alice)

    (record,) = api.call("GET", "/v1/events").json()["results"]

    created = json.loads(event.body)["created"]
    assert record == {"id": event.id, "type": EVENT_TYPE, "created": created, "test": False}


def test_an_event_is_read_with_its_data(api, alice):
    event = emit_one(alice, error="Kein Entwurf")

    record = api.call("GET", f"/v1/events/{event.id}").json()

    assert record["data"] == {"error": "Kein Entwurf"}
    assert record["created"] == json.loads(event.body)["created"]


def test_a_test_event_is_marked(api, webhook):
    event = send_test_event(webhook, EVENT_TYPE).event

    assert api.call("GET", f"/v1/events/{event.id}").json()["test"] is True


def test_the_deliveries_of_a_webhook_are_listed_without_attempts(api, webhook, delivery):
    (record,) = api.call("GET", f"/v1/webhooks/{webhook.id}/deliveries").json()["results"]

    assert record["id"] == delivery.id
    assert (record["webhook_id"], record["event_id"]) == (webhook.id, delivery.event_id)
    assert (record["kind"], record["state"], record["event_type"]) == ("event", "pending", EVENT_TYPE)
    assert (record["attempt_count"], record["max_attempts"]) == (1, 4)
    assert "attempts" not in record


def test_only_the_webhooks_own_deliveries_are_listed(api, alice, webhook):
    other = make_webhook(alice, "file.deleted")

    emit_one(alice)

    assert len(api.call("GET", f"/v1/webhooks/{webhook.id}/deliveries").json()["results"]) == 1
    assert api.call("GET", f"/v1/webhooks/{other.id}/deliveries").json()["results"] == []


def test_a_delivery_shows_its_attempts_and_the_receivers_answers(api, delivery):
    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert (attempt["number"], attempt["result"], attempt["duration_ms"]) == (1, "http_status", 12)
    assert (attempt["response_status"], attempt["response_body"]) == (500, BODY)
    assert attempt["response_headers"] == [["Content-Type", "text/plain"]]
    assert attempt["retry_after"] == "120"


def test_attempts_are_in_the_order_of_their_numbers(api, delivery):
    for number in (3, 2):
        DeliveryAttempt.objects.create(
            delivery=delivery, number=number, result="timeout", started_at=timezone.now(), url="https://example.com/"
        )

    attempts = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert [attempt["number"] for attempt in attempts] == [1, 2, 3]
    assert attempts[2]["response_status"] is None


def test_only_attempts_show_the_receivers_answer(api, webhook, delivery):
    end_deliveries(state="given_up")
    paths = ["/v1/webhooks", f"/v1/webhooks/{webhook.id}", f"/v1/webhooks/{webhook.id}/deliveries", "/v1/events"]

    texts = [api.call("GET", path).text for path in paths]
    texts.append(api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver").text)

    assert not any(BODY in text for text in texts)


@pytest.mark.parametrize(
    ("kind", "status"), [("test", "pending"), ("verification", "pending"), ("verification", "active")]
)
def test_verifications_and_tests_of_unverified_urls_show_only_result_and_status(api, delivery, kind, status):
    Delivery.objects.update(kind=kind)
    Webhook.objects.update(status=status)

    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert (attempt["result"], attempt["response_status"]) == ("http_status", 500)
    assert (attempt["response_headers"], attempt["response_body"], attempt["retry_after"]) == ([], "", "")


def test_a_test_of_a_verified_url_shows_its_answer(api, delivery):
    Delivery.objects.update(kind="test")

    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert (attempt["response_body"], attempt["retry_after"]) == (BODY, "120")


@pytest.mark.parametrize("message", ["The receiver's TLS certificate has expired.", "The TLS handshake failed."])
def test_a_test_of_an_unverified_url_does_not_show_the_receivers_certificate(api, delivery, message):
    Delivery.objects.update(kind="test")
    Webhook.objects.update(status="pending")
    DeliveryAttempt.objects.update(result="tls_error", message=message)

    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert (attempt["result"], attempt["message"]) == ("tls_error", "No trusted TLS connection could be made.")


def test_an_event_shows_the_problem_of_the_receivers_certificate(api, delivery):
    DeliveryAttempt.objects.update(result="tls_error", message="The receiver's TLS certificate has expired.")

    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert attempt["message"] == "The receiver's TLS certificate has expired."


def test_the_connected_address_is_not_shown(api, delivery):
    assert PEER not in api.call("GET", f"/v1/deliveries/{delivery.id}").text


def test_the_next_attempt_is_null_during_an_attempt(api, delivery):
    assert api.call("GET", f"/v1/deliveries/{delivery.id}").json()["next_attempt_at"] is None


def test_a_waiting_delivery_has_the_time_of_its_next_attempt(api, alice, webhook):
    emit_one(alice)

    assert api.call("GET", f"/v1/deliveries/{Delivery.objects.get().id}").json()["next_attempt_at"].endswith("Z")


def test_a_delivery_that_is_due_or_finished_has_no_hold(api, alice, webhook):
    emit_one(alice)
    due = api.call("GET", "/v1/deliveries").json()["results"][0]["hold"]
    end_deliveries(state="succeeded")

    assert due is None
    assert api.call("GET", "/v1/deliveries").json()["results"][0]["hold"] is None


def test_a_held_delivery_has_the_reason(api, alice, webhook):
    emit_one(alice)
    pk = Delivery.objects.get().pk
    webhook.pause()

    hold = api.call("GET", f"/v1/deliveries/{pk}").json()["hold"]

    assert hold == {"reason": "paused", "since": format_time(webhook.paused_at), "until": None, "delivery_id": None}


def test_a_delivery_that_is_not_due_has_its_due_time_in_the_hold(api, alice, webhook):
    emit_one(alice)
    QueueEntry.objects.update(due_at=timezone.now() + timedelta(hours=1))

    (delivery,) = api.call("GET", f"/v1/webhooks/{webhook.pk}/deliveries").json()["results"]

    assert delivery["hold"] == {
        "reason": "not_due",
        "since": None,
        "until": delivery["next_attempt_at"],
        "delivery_id": None,
    }


def test_the_holds_of_a_page_take_one_query(api, alice, webhook):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            api.call("GET", "/v1/deliveries")
        return len(captured)

    emit_one(alice)
    queries()
    for_one = queries()
    for _ in range(3):
        emit_one(alice)

    assert queries() == for_one


def test_a_verification_has_no_event(api, webhook):
    delivery = start_verification(unverified(webhook), actor=PROJECT)

    record = api.call("GET", f"/v1/deliveries/{delivery.id}").json()

    assert (record["kind"], record["event_id"], record["event_type"]) == ("verification", None, "webhook.verification")


def test_redelivery_sends_the_same_event_again(api, alice, delivery):
    end_deliveries(state="given_up")

    answer = api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver")

    again = Delivery.objects.get(redelivery_of=delivery)
    assert answer.status_code == 202
    assert answer.json() == {"delivery_id": again.id, "event_id": delivery.event_id}
    assert (again.state, again.attempt_count, again.requested_by) == ("pending", 0, alice)
    assert api.call("GET", f"/v1/deliveries/{again.id}").json()["redelivery_of"] == delivery.id


def test_redelivery_wakes_the_workers(api, delivery, django_capture_on_commit_callbacks):
    end_deliveries(state="given_up")
    woken = []
    deliveries_created.connect(lambda **_: woken.append(1), weak=False, dispatch_uid="test")

    with django_capture_on_commit_callbacks(execute=True):
        api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver")

    deliveries_created.disconnect(dispatch_uid="test")
    assert woken == [1]


@pytest.mark.parametrize("status", ["disabled", "failed"])
def test_redelivery_to_a_webhook_that_is_not_active_is_refused(api, webhook, delivery, status):
    end_deliveries(state="given_up")
    type(webhook).objects.update(status=status)

    answer = api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver")

    assert answer.status_code == 409
    assert Delivery.objects.count() == 1


def test_a_verification_is_not_redelivered(api, webhook):
    delivery = start_verification(unverified(webhook), actor=PROJECT)

    answer = api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver")

    assert (answer.status_code, Delivery.objects.count()) == (409, 1)


def test_the_log_remains_after_unsubscribing(api, alice, webhook):
    emit_one(alice)
    api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"events": ["file.deleted"]})

    assert len(api.call("GET", f"/v1/webhooks/{webhook.id}/deliveries").json()["results"]) == 1
    assert Event.objects.count() == 1


def test_an_event_without_its_body_has_no_data_and_is_not_redelivered(api, delivery):
    end_deliveries(state="given_up")
    Event.objects.update(body="")

    assert api.call("GET", f"/v1/events/{delivery.event_id}").json()["data"] is None
    answer = api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver")
    assert answer.status_code == 409
    assert "no longer kept" in answer.json()["detail"]
