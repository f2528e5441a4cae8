"""The span of an emission, which is the origin of an event's trace."""

from __future__ import annotations

import sys

import pytest
from asgiref.sync import async_to_sync
from opentelemetry.trace import SpanKind, StatusCode

from webhooks_app import NewEvent, aemit, emit, emit_many, send_test_event
from webhooks_app.exceptions import IdempotencyConflictError
from webhooks_app.models import Event
from webhooks_app.operations.actors import PROJECT

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from ..support.spans import facts, parent_id, traceparent

pytestmark = pytest.mark.django_db


def test_a_span_names_the_event(alice, spans):
    event = emit_one(alice)

    span = spans.one("emit")
    assert (span.name, span.kind) == (f"emit {EVENT_TYPE}", SpanKind.PRODUCER)
    assert facts(span) == {
        "messaging.system": "webhooks_app",
        "messaging.operation.name": "emit",
        "messaging.operation.type": "send",
        "messaging.destination.name": EVENT_TYPE,
        "messaging.message.id": event.pk,
        "webhooks_app.event.id": event.pk,
        "webhooks_app.event.type": EVENT_TYPE,
    }
    assert Event.objects.get().traceparent == traceparent(span)


def test_a_batch_is_one_span(alice, spans):
    emit_many([NewEvent(EVENT_TYPE, {"error": str(number)}, owner=alice) for number in range(3)])

    span = spans.one("emit")
    assert facts(span)["messaging.batch.message_count"] == 3
    assert set(Event.objects.values_list("traceparent", flat=True)) == {traceparent(span)}


def test_a_repeated_emission_names_no_event_of_its_own(alice, spans):
    for _ in range(2):
        emit(EVENT_TYPE, {"error": "e"}, owner=alice, idempotency_key="once")

    first, second = spans.all("emit")
    assert ("webhooks_app.event.id" in facts(first), "webhooks_app.event.id" in facts(second)) == (True, False)
    assert Event.objects.get().traceparent == traceparent(first)


def test_an_error_is_named_without_its_message(alice, spans):
    emit(EVENT_TYPE, {"error": "s3cret"}, owner=alice, idempotency_key="s3cret")

    with pytest.raises(IdempotencyConflictError):
        emit(EVENT_TYPE, {"error": "other"}, owner=alice, idempotency_key="s3cret")

    failed = spans.all("emit")[-1]
    assert (failed.status.status_code, facts(failed)["error.type"]) == (StatusCode.ERROR, "IdempotencyConflictError")
    assert "s3cret" not in failed.to_json()


def test_a_test_event_is_traced(alice, spans):
    send_test_event(make_webhook(alice), EVENT_TYPE, actor=PROJECT)

    assert Event.objects.get().traceparent == traceparent(spans.one("emit"))


def test_an_asynchronous_emission_belongs_to_the_current_span(alice, spans):
    async def check_out():
        with spans.tracer.start_as_current_span("checkout"):
            await aemit(EVENT_TYPE, {"error": "e"}, owner=alice)

    async_to_sync(check_out)()

    assert parent_id(spans.one("emit")) == spans.one("checkout").context.span_id


def test_an_event_has_no_traceparent_without_a_tracer_provider(alice):
    assert emit_one(alice).traceparent is None


def test_an_event_is_emitted_without_opentelemetry(alice, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)

    emit_one(alice)

    assert Event.objects.get().traceparent is None
    assert [name for name in sys.modules if name.startswith("opentelemetry")] == []
