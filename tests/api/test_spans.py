"""The span of a call of the REST API."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from opentelemetry.trace import SpanKind, StatusCode

from webhooks_app.api.views import WebhookViewSet
from webhooks_app.models import ApiKey, Event

from ..support.rows import EVENT_TYPE, make_webhook
from ..support.spans import facts, linked_ids, parent_id

pytestmark = pytest.mark.django_db

TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
CALLER = f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01"
UNSAMPLED = CALLER.removesuffix("01") + "00"


def emit_by(client, alice, **headers):
    body = {"type": EVENT_TYPE, "owner": str(alice.pk), "data": {"error": "e"}}
    answer = client.call("POST", "/v1/events", body, **headers)
    assert answer.status_code == 202, answer.content


def test_a_call_is_a_span_without_secrets(api, alice, spans):
    webhook = make_webhook(alice)

    api.call("GET", f"/v1/webhooks/{webhook.pk}?s3cret", traceparent=CALLER)

    span = spans.one("GET")
    assert span.kind is SpanKind.SERVER
    assert "s3cret" not in span.to_json()
    assert api.key not in span.to_json()


@pytest.mark.parametrize(
    "traceparent", [CALLER, f"01-{TRACE_ID:032x}-{SPAN_ID:016x}-01-more"], ids=["version 0", "a later version"]
)
def test_a_call_of_a_service_belongs_to_its_trace(service, alice, spans, traceparent):
    emit_by(service, alice, traceparent=traceparent)

    span = spans.one("POST")
    assert (span.context.trace_id, parent_id(span), linked_ids(span)) == (TRACE_ID, SPAN_ID, [])
    assert parent_id(spans.one("emit")) == span.context.span_id


def test_a_service_decides_whether_its_calls_are_sampled(service, alice, spans):
    emit_by(service, alice, traceparent=UNSAMPLED)

    assert spans.all() == []
    assert Event.objects.get().traceparent.startswith(f"00-{TRACE_ID:032x}-")


@pytest.mark.parametrize("traceparent", [CALLER, UNSAMPLED], ids=["sampled", "unsampled"])
@pytest.mark.parametrize("key", ["an owner's", "unknown", "service key of another scheme"])
def test_the_trace_of_anyone_else_is_linked_to(api, service, spans, key, traceparent):
    authorization = {
        "an owner's": f"Bearer {api.key}",
        "unknown": f"Bearer {service.key}x",
        "service key of another scheme": f"Basic {service.key}",
    }[key]

    api.call("GET", "/v1/webhooks", authorization=authorization, traceparent=traceparent)

    span = spans.one("GET")
    assert (parent_id(span), linked_ids(span)) == (None, [SPAN_ID])
    assert span.context.trace_id != TRACE_ID


def test_a_call_while_the_database_is_unavailable_has_a_trace_of_its_own(service, spans, monkeypatch):
    def unavailable(self, text):
        raise OperationalError("refused")

    monkeypatch.setattr(type(ApiKey.objects), "find_service_key", unavailable)

    answer = service.call("GET", "/v1/events", traceparent=CALLER)

    assert answer.status_code == 403
    assert linked_ids(spans.one("GET")) == [SPAN_ID]


@pytest.mark.parametrize("method", ["S3CRET", "GETS"])
def test_an_unknown_method_names_no_span(api, spans, method):
    api.call(method, "/v1/webhooks")

    (span,) = spans.all()
    assert (span.name.split()[0], facts(span)["http.request.method"]) == ("HTTP", "_OTHER")
    assert method not in span.to_json()


@pytest.mark.parametrize("given", [{}, {"traceparent": "00-damaged-b7ad6b7169203331-01"}], ids=["none", "damaged"])
def test_a_call_without_a_caller_begins_a_trace(api, alice, spans, given):
    webhook = make_webhook(alice)

    api.call("GET", f"/v1/webhooks/{webhook.pk}", **given)

    span = spans.one("GET")
    assert parent_id(span) is None
    assert span.name.startswith("GET /v1/")
    found = facts(span)
    assert {name: found[name] for name in ("http.response.status_code", "url.path", "webhooks_app.api.operation")} == {
        "http.response.status_code": 200,
        "url.path": f"/v1/webhooks/{webhook.pk}",
        "webhooks_app.api.operation": "webhooks_retrieve",
    }


def test_the_span_of_the_projects_instrumentation_gets_the_operation(api, alice, spans):
    with spans.tracer.start_as_current_span("GET v1/webhooks"):
        api.call("GET", "/v1/webhooks", traceparent=CALLER)

    (span,) = spans.all("GET")
    assert facts(span) == {"webhooks_app.api.operation": "webhooks_list"}


def test_a_refused_call_is_no_error_of_the_server(api, spans):
    api.call("GET", "/v1/webhooks/wh_nothing")

    span = spans.one("GET")
    assert (facts(span)["http.response.status_code"], span.status.status_code) == (404, StatusCode.UNSET)


def test_a_broken_view_is_an_error(api, spans, monkeypatch):
    def broken(self, request):
        raise RuntimeError("s3cret")

    monkeypatch.setattr(WebhookViewSet, "list", broken)

    api.call("GET", "/v1/webhooks")

    span = spans.one("GET")
    assert span.status.status_code is StatusCode.ERROR
    assert "s3cret" not in span.to_json()
