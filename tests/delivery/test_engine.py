"""Deliveries from the point of view of the receiver and in the rows."""

from __future__ import annotations

import gc
import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise
from unittest.mock import Mock

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import InternalError, OperationalError, connection
from django.utils import translation

from webhooks_app import send_test_event
from webhooks_app.conf import transport_options
from webhooks_app.delivery import recording
from webhooks_app.delivery.engine import NEW_OBJECTS, Engine, RareCollections
from webhooks_app.models import Delivery, DeliveryAttempt, Event, SigningKey, Webhook
from webhooks_app.protocol.ids import time_of
from webhooks_app.signals import attempt_made, delivery_given_up, delivery_succeeded
from webhooks_app.transport import BaseTransport
from webhooks_app.transport.memory import MemoryTransport

from ..support.rows import EVENT_TYPE, deliveries, emit_one, make_webhook

pytestmark = pytest.mark.django_db


def seconds_between_attempts(delivery):
    starts = [attempt.started_at for attempt in delivery.attempts.all()]
    return [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]


class NamelessTransport(MemoryTransport):
    name = BaseTransport.name


def test_a_transport_without_a_name_delivers(alice, webhook):
    emit_one(alice)

    Engine(transport=NamelessTransport(transport_options())).run_until_idle()

    assert webhook.deliveries.get().state == "succeeded"


def test_a_200_answer_ends_the_delivery(alice, webhook, receiver, deliver):
    event = emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert [request.body.decode() for request in transport.requests] == [event.body]
    assert [(d.state, d.attempt_count, d.due_at) for d in deliveries()] == [("succeeded", 1, None)]


@pytest.mark.parametrize("status", [201, 202, 204, 301, 400, 404, 410, 429, 500, 503, 999])
def test_any_other_status_counts_as_failed(alice, webhook, receiver, deliver, status):
    emit_one(alice)

    deliver(receiver(status, 200))

    first = DeliveryAttempt.objects.get(delivery=deliveries()[0], number=1)
    assert (first.result, first.response_status) == ("http_status", status)
    assert "nly status 200 confirms receipt" in first.message


def test_a_failing_receiver_gets_four_requests_on_the_schedule(alice, webhook, receiver, deliver):
    emit_one(alice)
    transport = receiver(500)

    deliver(transport)

    (delivery,) = deliveries()
    assert (delivery.state, delivery.attempt_count) == ("given_up", 4)
    assert len(transport.sent(EVENT_TYPE)) == 4
    assert seconds_between_attempts(delivery) == pytest.approx([1, 5, 30], abs=0.5)
    assert all(gap >= wait for gap, wait in zip(seconds_between_attempts(delivery), [1, 5, 30], strict=True))


@pytest.mark.parametrize("is_sent", [True, False], ids=["answered", "not sent"])
def test_a_retry_counts_from_the_upper_bound_of_the_time(
    alice, webhook, clock, receiver, deliver, monkeypatch, is_sent
):
    monkeypatch.setattr(clock, "latest", lambda: clock() + timedelta(seconds=0.5))
    emit_one(alice)
    if not is_sent:
        monkeypatch.setattr("webhooks_app.delivery.engine.request_for", Mock(side_effect=RuntimeError))

    deliver(receiver(500))

    gaps = seconds_between_attempts(deliveries()[0])
    assert all(gap >= wait + 0.5 for gap, wait in zip(gaps, [1, 5, 30], strict=True))


def test_every_attempt_sends_the_same_bytes_with_a_new_signature(alice, webhook, receiver, deliver):
    emit_one(alice)
    transport = receiver(500)

    deliver(transport)

    sent = [dict(request.headers) for request in transport.requests if EVENT_TYPE in request.headers[3]]
    assert len({request.body for request in transport.requests if EVENT_TYPE in request.headers[3]}) == 1
    assert len({headers["X-Webhook-Signature"] for headers in sent}) == 4


def test_each_retry_is_announced_by_a_notice(alice, webhook, receiver, deliver):
    event = emit_one(alice)
    transport = receiver(500)

    deliver(transport)

    notices = transport.sent("webhook.retry")
    assert [notice["data"]["retry_count"] for notice in notices] == [1, 2, 3]
    assert {notice["data"]["original_event_id"] for notice in notices} == {event.pk}
    assert len({notice["id"] for notice in notices}) == 3


def test_a_failed_notice_is_neither_retried_nor_announced(alice, webhook, clock, receiver, deliver):
    emit_one(alice)
    transport = receiver(500)
    transport.answer = lambda request: 500

    deliver(transport)

    assert [(notice.state, notice.attempt_count) for notice in deliveries("retry_notice")] == [("given_up", 1)] * 3
    assert Event.objects.filter(type="webhook.retry").count() == 3


def test_a_notice_has_the_time_of_the_database(alice, webhook, receiver, clock):
    clock.now += timedelta(hours=1)
    emit_one(alice)
    transport = receiver(500, 200)

    Engine(transport=transport, clock=clock).run_until_idle()

    (sent,) = transport.sent("webhook.retry")
    notice = Delivery.objects.get(kind="retry_notice")
    created, next_retry_at = (datetime.fromisoformat(at) for at in (sent["created"], sent["data"]["next_retry_at"]))
    assert next_retry_at - created == timedelta(seconds=1)
    assert notice.created_at == notice.event.created_at == created
    assert all(abs(time_of(pk) - created) < timedelta(milliseconds=1) for pk in (sent["id"], notice.pk))


def test_the_timeout_of_a_notice_ends_at_its_retry(alice, webhook, receiver, deliver):
    emit_one(alice)
    transport = receiver(500, 200)

    deliver(transport)

    (notice,) = [request for request in transport.requests if request.headers[3][1] == "webhook.retry"]
    assert 0 < notice.timeout_seconds <= 1


def test_a_webhook_can_turn_notices_off(alice, receiver, deliver):
    make_webhook(alice, retry_notices=False)
    emit_one(alice)
    transport = receiver(500, 200)

    deliver(transport)

    assert transport.sent("webhook.retry") == []


def test_a_test_event_goes_to_a_webhook_that_does_not_subscribe_to_it(webhook, receiver, deliver):
    delivery = send_test_event(webhook, "file.uploaded")
    transport = receiver(200)

    deliver(transport)

    delivery.refresh_from_db()
    assert (delivery.state, delivery.event.is_test) == ("succeeded", True)
    assert set(transport.sent("file.uploaded")[0]) == {"id", "type", "created", "data"}


def test_a_pending_webhook_gets_only_handshakes_and_tests(alice, webhook, clock, receiver):
    emit_one(alice)
    webhook.await_verification()
    send_test_event(webhook, "file.uploaded")
    transport = receiver(200)

    Engine(transport=transport, clock=clock).run_until_idle()

    assert [envelope["type"] for envelope in transport.sent()] == ["file.uploaded"]
    assert [delivery.state for delivery in deliveries()] == ["pending"]


def test_the_retry_of_a_test_is_not_announced_to_a_pending_webhook(webhook, receiver, deliver):
    webhook.await_verification()
    delivery = send_test_event(webhook, EVENT_TYPE)

    deliver(receiver(500, 200))

    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempt_count) == ("succeeded", 2)
    assert deliveries("retry_notice") == []


@pytest.mark.parametrize("status", ["disabled", "failed"])
def test_pending_deliveries_of_a_stopped_webhook_are_cancelled(alice, webhook, receiver, deliver, status):
    emit_one(alice)
    Webhook.objects.update(status=status)
    transport = receiver(200)

    deliver(transport)

    assert transport.requests == []
    assert [(d.state, d.state_reason) for d in deliveries()] == [("cancelled", f"webhook_{status}")]


def test_disabling_a_webhook_between_attempts_cancels_the_rest(alice, webhook, receiver, deliver):
    emit_one(alice)
    transport = receiver(500)
    answer = transport.answer

    def disable_and_answer(request):
        Webhook.objects.get().disable("Switched off.")
        return answer(request)

    transport.answer = disable_and_answer
    deliver(transport)

    assert len(transport.sent(EVENT_TYPE)) == 1
    assert deliveries()[0].state == "cancelled"


def test_the_next_attempt_signs_with_a_rotated_secret(alice, webhook, receiver, deliver):
    from webhooks_app.receiver import verify

    emit_one(alice)
    transport = receiver(500, 200)
    answer = transport.answer

    def rotate_and_answer(request):
        if request.headers[3][1] == EVENT_TYPE and len(transport.sent(EVENT_TYPE)) == 1:
            Webhook.objects.get().rotate_secret("another secret, long enough")
        return answer(request)

    transport.answer = rotate_and_answer
    deliver(transport)

    last = [request for request in transport.requests if request.headers[3][1] == EVENT_TYPE][-1]
    assert verify(last.body, dict(last.headers), "another secret, long enough", tolerance=None).type == EVENT_TYPE


def test_an_invalid_delivery_does_not_affect_others(alice, webhook, receiver, deliver, settings):
    emit_one(alice)
    broken = make_webhook(alice)
    SigningKey.objects.filter(webhook=broken).update(encrypted_key="nonsense")

    deliver(receiver(200))

    assert sorted(delivery.state for delivery in deliveries()) == ["succeeded"]
    emit_one(alice)
    deliver(receiver(200))
    assert sorted(delivery.state for delivery in deliveries()) == ["pending", "succeeded", "succeeded"]


def test_signals_report_attempts_and_outcomes(alice, webhook, receiver, deliver):
    heard = []
    for signal in (attempt_made, delivery_succeeded, delivery_given_up):
        signal.connect(lambda signal, **kwargs: heard.append(signal), weak=False, dispatch_uid="hearing")
    try:
        emit_one(alice)
        deliver(receiver(500, 200))
    finally:
        for signal in (attempt_made, delivery_succeeded, delivery_given_up):
            signal.disconnect(dispatch_uid="hearing")

    assert heard.count(attempt_made) == 3  # two of the event, one of the notice
    assert heard.count(delivery_succeeded) == 2
    assert heard.count(delivery_given_up) == 0


def test_a_failing_signal_handler_changes_nothing(alice, webhook, receiver, deliver):
    def fail(**kwargs):
        raise RuntimeError("The host's fault.")

    attempt_made.connect(fail)
    try:
        emit_one(alice)
        deliver(receiver(200))
    finally:
        attempt_made.disconnect(fail)

    assert deliveries()[0].state == "succeeded"


def test_the_text_of_a_receiver_is_sanitized(alice, webhook, receiver, deliver):
    from webhooks_app.transport import Response

    emit_one(alice)
    said = Response(status=200, headers=(("X-Odd", "a\0b"), ("Retry-After", "9" * 30)), body=b"\xff\0ok")

    deliver(receiver(said))

    attempt = DeliveryAttempt.objects.get()
    assert attempt.response_body == "��ok"
    assert attempt.response_headers == [["X-Odd", "a�b"], ["Retry-After", "9" * 30]]
    assert attempt.retry_after == "9" * 30


def test_results_are_recorded_after_an_outage(alice, webhook, clock, receiver, monkeypatch):
    emit_one(alice)
    fail = iter([OperationalError("gone"), OperationalError("gone")])
    record = recording.record

    def record_when_back(*args):
        error = next(fail, None)
        if error:
            raise error
        return record(*args)

    monkeypatch.setattr(recording, "record", record_when_back)
    monkeypatch.setattr(connection, "close", lambda: None)
    transport = receiver(200)

    Engine(transport=transport, clock=clock).run_until_idle()

    assert len(transport.sent(EVENT_TYPE)) == 1
    assert deliveries()[0].state == "succeeded"


def test_a_stopped_engine_finishes_requests_in_flight_without_new_claims(alice, webhook, clock, receiver):
    transport = receiver(200)
    transport.answer = lambda request: None
    emit_one(alice)
    engine = Engine(transport=transport, clock=clock)

    def stop_then_answer():
        while not transport.held:
            time.sleep(0.005)
        engine.stop()
        transport.complete(transport.held[0])

    thread = threading.Thread(target=stop_then_answer)
    thread.start()
    engine.run()
    thread.join()

    assert deliveries()[0].state == "succeeded"


def test_no_transaction_is_open_while_a_request_is_in_flight(alice, webhook, receiver, deliver):
    depths = []
    transport = receiver(200)
    answer = transport.answer
    outside = len(connection.savepoint_ids)

    def look_and_answer(request):
        depths.append(len(connection.savepoint_ids) - outside)
        return answer(request)

    transport.answer = look_and_answer
    emit_one(alice)
    deliver(transport)

    assert depths == [0]


def test_results_are_kept_while_the_database_is_read_only(alice, webhook, clock, receiver, monkeypatch):
    emit_one(alice)
    fail = iter([InternalError("read-only"), InternalError("read-only")])
    record = recording.record

    def record_when_writable(*args):
        error = next(fail, None)
        if error:
            raise error
        return record(*args)

    monkeypatch.setattr(recording, "record", record_when_writable)
    monkeypatch.setattr(connection, "close", lambda: None)

    Engine(transport=receiver(200), clock=clock).run_until_idle()

    assert deliveries()[0].state == "succeeded"


def test_an_idle_engine_ends_at_once(clock, receiver):
    began_at = clock()

    Engine(transport=receiver(200), clock=clock).run_until_idle()

    assert clock() - began_at < timedelta(seconds=1)


def test_retries_of_an_earlier_process_are_sent(alice, webhook, clock, receiver):
    emit_one(alice)
    Engine(transport=receiver(500), clock=clock).run_until_idle(await_retries=False)
    clock.now += timedelta(milliseconds=500)
    transport = receiver(200)

    Engine(transport=transport, clock=clock).run_until_idle()

    assert [delivery.state for delivery in deliveries()] == ["succeeded"]


def test_an_engine_refuses_a_lease_that_ends_during_an_attempt_in_english(receiver, settings):
    settings.WEBHOOKS_LEASE_SECONDS = 34

    with (
        translation.override("de"),
        pytest.raises(ImproperlyConfigured, match="WEBHOOKS_LEASE_SECONDS is 34, too short"),
    ):
        Engine(transport=receiver(200))


@pytest.fixture
def thresholds():
    """Restore the thresholds of the garbage collector after the test."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_overlapping_engines_restore_the_garbage_collector_when_the_last_one_ends(thresholds):
    gc.set_threshold(700, 10, 10)
    shared = RareCollections()
    shared.__enter__()  # two engines, of which the first one ends first
    with shared:
        shared.__exit__()
        assert gc.get_threshold() == (NEW_OBJECTS, 10, 10)

    assert gc.get_threshold() == (700, 10, 10)


def test_a_disabled_garbage_collector_remains_disabled(thresholds):
    gc.set_threshold(0, 10, 10)

    with RareCollections():
        assert gc.get_threshold()[0] == 0

    assert gc.get_threshold() == (0, 10, 10)
