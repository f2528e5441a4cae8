"""The spans of claims and attempts, and the traceparent that receivers get."""

from __future__ import annotations

import json
import logging
import re
import threading

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, use_span

from webhooks_app import tracing
from webhooks_app.delivery import spans as delivery_spans
from webhooks_app.delivery.spans import DeliverySpans
from webhooks_app.models import Delivery, DeliveryAttempt, Event, Webhook
from webhooks_app.once import Once
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.operations.sending import redeliver
from webhooks_app.receiver import verify
from webhooks_app.transport import ErrorClass, TransportError

from ..support.rows import EVENT_TYPE, emit_one, make_webhook, unverified
from ..support.spans import facts, linked_ids, parent_id, traceparent

pytestmark = pytest.mark.django_db


class Counting(SpanProcessor):
    """Collects the names of the spans that were started."""

    def __init__(self, names):
        self.names = names

    def on_start(self, span, parent_context=None):
        self.names.append(span.name)


SECRETS = ("s3cret-password", "s3cret-token", "s3cret-header", "s3cret-data", "a secret of the webhook")


def headers(transport):
    return [dict(request.headers) for request in transport.requests]


def test_a_trace_leads_from_the_emitting_code_to_the_attempt(alice, receiver, deliver, spans):
    webhook = make_webhook(alice, url="https://hooks.example.com/inbox?token=1")
    with spans.tracer.start_as_current_span("checkout") as checkout:
        event = emit_one(alice)

    deliver(receiver(200))

    emitted, claimed, attempt = spans.one("emit"), spans.one("claim"), spans.one("attempt")
    assert (emitted.name, emitted.kind) == (f"emit {EVENT_TYPE}", SpanKind.PRODUCER)
    assert (claimed.name, claimed.kind) == ("claim", SpanKind.CONSUMER)
    assert (attempt.name, attempt.kind) == (f"attempt {EVENT_TYPE}", SpanKind.CLIENT)
    assert parent_id(emitted) == checkout.get_span_context().span_id
    assert parent_id(attempt) == emitted.context.span_id
    assert attempt.context.trace_id == checkout.get_span_context().trace_id
    assert (parent_id(claimed), linked_ids(claimed)) == (None, [emitted.context.span_id])
    assert linked_ids(attempt) == [claimed.context.span_id]
    assert facts(claimed)["messaging.batch.message_count"] == 1
    assert facts(attempt) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.scheme": "https",
        "server.address": "hooks.example.com",
        "server.port": 443,
        "webhooks_app.event.id": event.pk,
        "webhooks_app.event.type": EVENT_TYPE,
        "webhooks_app.webhook.id": webhook.pk,
        "webhooks_app.delivery.id": Delivery.objects.get().pk,
        "webhooks_app.delivery.kind": "event",
        "webhooks_app.delivery.state": "succeeded",
        "webhooks_app.attempt.number": 1,
        "webhooks_app.attempt.result": "succeeded",
    }
    assert attempt.status.status_code is StatusCode.UNSET


def test_each_retry_is_a_span_with_its_number_and_error(alice, receiver, deliver, spans):
    make_webhook(alice)
    emit_one(alice)

    deliver(receiver(503, TransportError(error_class=ErrorClass.TIMEOUT, message="late"), 200))

    attempts = spans.all(f"attempt {EVENT_TYPE}")
    (emitted,) = spans.all("emit")
    assert {parent_id(attempt) for attempt in attempts} == {emitted.context.span_id}
    assert [
        tuple(
            facts(attempt).get(name)
            for name in (
                "webhooks_app.attempt.number",
                "http.request.resend_count",
                "http.response.status_code",
                "error.type",
                "webhooks_app.delivery.state",
            )
        )
        for attempt in attempts
    ] == [(1, None, 503, "503", "pending"), (2, 1, None, "timeout", "pending"), (3, 2, 200, None, "succeeded")]
    assert [attempt.status.status_code for attempt in attempts] == [
        StatusCode.ERROR,
        StatusCode.ERROR,
        StatusCode.UNSET,
    ]
    assert {attempt.context.trace_id for attempt in spans.all("attempt webhook.retry")} == {emitted.context.trace_id}


def test_a_redelivery_belongs_to_the_trace_of_its_event(alice, receiver, deliver, spans):
    make_webhook(alice)
    emit_one(alice)
    deliver(receiver(200))

    redeliver(Delivery.objects.get(), actor=PROJECT)
    deliver(receiver(200))

    assert [parent_id(span) for span in spans.all("attempt")] == [spans.one("emit").context.span_id] * 2


def test_a_batch_links_to_each_of_its_events(alice, receiver, deliver, spans):
    make_webhook(alice)
    Webhook.objects.update(max_in_flight=50)
    for _ in range(3):
        emit_one(alice)
    emitted = {span.context.span_id for span in spans.all("emit")}

    deliver(receiver(200))

    linked = [set(linked_ids(span)) for span in spans.all("claim")]
    assert set().union(*linked) == emitted
    assert sum(facts(span)["messaging.batch.message_count"] for span in spans.all("claim")) == 3


def test_a_claim_links_to_as_many_events_as_an_sdk_keeps(alice, spans, queue, monkeypatch):
    make_webhook(alice)
    Webhook.objects.update(max_in_flight=50)
    for _ in range(4):
        emit_one(alice)
    Event.objects.filter(pk=Event.objects.first().pk).update(traceparent=None)
    untraced, *traced = sorted(queue.claim(4), key=lambda claim: claim.traceparent or "")
    monkeypatch.setattr(delivery_spans, "MAX_LINKS", 2)

    DeliverySpans(tracing.configured_tracing(), sends_traceparent=False).claimed([untraced, *traced], 1)

    claim = spans.one("claim")
    assert facts(claim)["messaging.batch.message_count"] == 4
    assert linked_ids(claim) == [int(each.traceparent.split("-")[2], 16) for each in traced[:2]]


def test_a_handshake_has_a_trace_of_its_own(alice, receiver, deliver, spans):
    start_verification(unverified(make_webhook(alice)), actor=PROJECT)

    deliver(receiver())

    attempt = spans.one("attempt webhook.verification")
    assert parent_id(attempt) is None
    assert "webhooks_app.event.id" not in facts(attempt)
    assert facts(attempt)["webhooks_app.attempt.result"] == "succeeded"


def test_a_lost_attempt_is_a_span_of_the_time_since_its_claim(alice, receiver, deliver, spans, queue, clock):
    make_webhook(alice)
    emit_one(alice)
    queue.claim(1)
    clock.advance(100)

    deliver(receiver(200))

    lost, repeated = spans.all("attempt " + EVENT_TYPE)
    assert (facts(lost)["error.type"], facts(lost)["webhooks_app.attempt.number"]) == ("worker_lost", 1)
    assert facts(repeated)["webhooks_app.attempt.number"] == 2


def test_a_request_that_cannot_be_made_is_a_span(alice, receiver, deliver, spans):
    make_webhook(alice)
    emit_one(alice)
    Webhook.objects.update(encrypted_headers=[["X-Damaged"]])

    deliver(receiver(200))

    assert {facts(span)["error.type"] for span in spans.all("attempt " + EVENT_TYPE)} == {"internal_error"}


def test_a_request_that_the_transport_refuses_is_one_span(alice, receiver, deliver, spans):
    make_webhook(alice)
    emit_one(alice)
    transport = receiver(200)
    started = []
    spans.provider.add_span_processor(Counting(started))

    def refuse(request):
        transport.start = start
        raise RuntimeError("no descriptors")

    start, transport.start = transport.start, refuse

    deliver(transport)

    refused, repeated = spans.all("attempt " + EVENT_TYPE)
    assert (facts(refused)["error.type"], facts(refused)["webhooks_app.attempt.number"]) == ("internal_error", 1)
    assert facts(repeated)["webhooks_app.attempt.number"] == 2
    assert started.count("attempt " + EVENT_TYPE) == 2


def test_no_span_contains_a_secret(alice, receiver, deliver, spans):
    make_webhook(
        alice,
        url="https://hooks.example.com/s3cret-token?key=s3cret-token",
        secret="a secret of the webhook, long enough",
        headers={"X-Tenant": "s3cret-header"},
        basic_auth=("user", "s3cret-password"),
    )
    emit_one(alice, error="s3cret-data")
    Webhook.objects.update(url="https://user:s3cret-password@hooks.example.com/s3cret-token?key=s3cret-token")

    deliver(receiver(200))

    shown = "".join(span.to_json() for span in spans.all())
    assert len(spans.all("attempt")) >= 1
    assert [secret for secret in SECRETS if secret in shown] == []


@pytest.mark.parametrize("signatures", [["native"], ["standard"]], ids="+".join)
def test_a_receiver_gets_the_traceparent_where_a_setting_asks(alice, receiver, deliver, spans, settings, signatures):
    settings.WEBHOOKS_SEND_TRACEPARENT = True
    webhook = make_webhook(alice, signatures=signatures)
    emit_one(alice)
    transport = receiver(503, 200)

    deliver(transport)

    events = [each for each in transport.requests if json.loads(each.body)["type"] == EVENT_TYPE]
    sent = [dict(each.headers)["traceparent"] for each in events]
    assert sent == [traceparent(span) for span in spans.all("attempt " + EVENT_TYPE)]
    assert {value.split("-")[1] for value in sent} == {f"{spans.one('emit').context.trace_id:032x}"}
    assert verify(events[0].body, dict(events[0].headers), webhook.verification_keys)
    assert "traceparent: ********\r\n" in DeliveryAttempt.objects.first().request_header
    assert {"tracestate", "baggage"}.isdisjoint(name.lower() for each in headers(transport) for name in each)


def test_a_receiver_gets_no_traceparent_otherwise(alice, receiver, deliver, spans):
    make_webhook(alice)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert Event.objects.get().traceparent == traceparent(spans.one("emit"))
    assert [each for each in headers(transport) if "traceparent" in each] == []
    assert "traceparent" not in DeliveryAttempt.objects.get().request_header


def test_a_worker_without_tracing_sends_the_stored_traceparent(alice, receiver, deliver, settings):
    settings.WEBHOOKS_SEND_TRACEPARENT = True
    stored = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    make_webhook(alice)
    emit_one(alice)
    emit_one(alice)
    Event.objects.filter(pk=Event.objects.first().pk).update(traceparent=stored)
    transport = receiver(200)

    deliver(transport)

    assert sorted(each.get("traceparent", "") for each in headers(transport)) == ["", stored]


@pytest.fixture
def with_old_headers(alice):
    """A webhook with headers from before their names were reserved."""
    webhook = make_webhook(alice, headers={"X-Tenant": "mine"})
    ((name, value),) = webhook.encrypted_headers
    Webhook.objects.update(encrypted_headers=[["Traceparent", value], [name, value], ["TraceState", value]])


def test_reserved_headers_of_a_webhook_are_not_sent(alice, with_old_headers, receiver, deliver, settings, spans):
    settings.WEBHOOKS_SEND_TRACEPARENT = True
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    named = [(name, value) for name, value in transport.requests[0].headers if name.lower().startswith("trace")]
    assert named == [("traceparent", traceparent(spans.one("attempt")))]
    assert DeliveryAttempt.objects.get().header_names == "X-Tenant,traceparent"


def test_they_are_not_sent_for_an_untraced_event_either(alice, with_old_headers, receiver, deliver, settings):
    settings.WEBHOOKS_SEND_TRACEPARENT = True
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert [name for name, _ in transport.requests[0].headers if name.lower().startswith("trace")] == []
    assert DeliveryAttempt.objects.get().header_names == "X-Tenant"


def test_they_are_sent_without_the_setting(alice, with_old_headers, receiver, deliver, spans):
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    sent = dict(transport.requests[0].headers)
    assert (sent["Traceparent"], sent["TraceState"]) == ("mine", "mine")


def test_the_decision_not_to_sample_travels(alice, receiver, deliver, spans, settings):
    settings.WEBHOOKS_SEND_TRACEPARENT = True
    make_webhook(alice)
    unsampled = SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(0))
    with use_span(NonRecordingSpan(unsampled)):
        emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert [span.name for span in spans.all()] == ["claim"]
    assert re.fullmatch(f"00-{7:032x}-[0-9a-f]{{16}}-00", headers(transport)[0]["traceparent"])


class Broken(SpanProcessor):
    def on_start(self, span, parent_context=None):
        raise RuntimeError("no memory")


def test_an_error_of_opentelemetry_does_not_hurt_a_delivery(alice, receiver, deliver, spans, monkeypatch, caplog):
    monkeypatch.setattr(tracing, "_reported", Once())
    spans.provider.add_span_processor(Broken())
    make_webhook(alice)
    emit_one(alice)
    emit_one(alice)

    deliver(receiver(200))

    assert set(Delivery.objects.values_list("state", flat=True)) == {"succeeded"}
    records = [record for record in caplog.records if record.name == "webhooks_app.tracing"]
    assert [(record.levelno, "no memory" in record.exc_text) for record in records] == [(logging.ERROR, True)]


class Hanging(SpanExporter):
    def __init__(self):
        self.released = threading.Event()

    def export(self, batch):
        self.released.wait()
        return SpanExportResult.FAILURE


def test_an_exporter_that_hangs_does_not_delay_a_delivery(alice, receiver, deliver, spans):
    exporter = Hanging()
    spans.provider.add_span_processor(
        BatchSpanProcessor(exporter, schedule_delay_millis=1, max_queue_size=1, max_export_batch_size=1)
    )
    make_webhook(alice)
    for _ in range(5):
        emit_one(alice)

    deliver(receiver(200))

    assert not exporter.released.is_set()
    exporter.released.set()
    assert set(Delivery.objects.values_list("state", flat=True)) == {"succeeded"}


def test_a_postponed_probe_ends_its_span(alice, receiver, deliver, spans, clock):
    start_verification(unverified(make_webhook(alice)), actor=PROJECT)
    transport = receiver()
    first_wait = transport.wait

    def postpone(timeout_seconds):
        transport.wait = first_wait
        return [each._replace(response=None, postponed_seconds=1.0) for each in first_wait(timeout_seconds)]

    transport.start = lambda request, start=transport.start: (
        setattr(transport, "wait", postpone) if len(transport.requests) == 0 else None,
        start(request),
    )

    deliver(transport)

    results = [facts(span)["webhooks_app.attempt.result"] for span in spans.all("attempt")]
    assert results == ["postponed", "succeeded"]
