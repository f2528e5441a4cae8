"""The span of a call of the REST API."""

from __future__ import annotations

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from webhooks_app.api.views import WebhookViewSet

from ..support.rows import EVENT_TYPE, make_webhook
from ..support.spans import facts, parent_id

pytestmark = pytest.mark.django_db

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_call_is_a_span_in_the_trace_of_its_caller(api, alice, spans):
    webhook = make_webhook(alice)

    api.call("GET", f"/v1/webhooks/{webhook.pk}?s3cret", traceparent=CALLER)

    span = spans.one("GET")
    assert span.kind is SpanKind.SERVER
    assert (f"{span.context.trace_id:032x}", f"{parent_id(span):016x}") == tuple(CALLER.split("-")[1:3])
    assert "s3cret" not in span.to_json()
    assert api.key not in span.to_json()


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


def test_an_emission_over_the_api_belongs_to_its_call(service, alice, spans):
    make_webhook(alice)

    answer = service.call(
        "POST", "/v1/events", {"type": EVENT_TYPE, "owner": str(alice.pk), "data": {"error": "e"}}, traceparent=CALLER
    )

    assert answer.status_code in (200, 201, 202), answer.content
    assert parent_id(spans.one("emit")) == spans.one("POST").context.span_id


def test_the_span_of_the_projects_instrumentation_gets_the_operation(api, alice, spans):
    with spans.tracer.start_as_current_span("GET v1/webhooks"):
        api.call("GET", "/v1/webhooks")

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
