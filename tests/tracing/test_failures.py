"""A tracer provider that fails: it is logged once, and nothing else happens."""

from __future__ import annotations

import logging
import threading

import pytest
from django.test import Client
from opentelemetry import trace

from webhooks_app import tracing
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import ApiKey, Delivery, Event
from webhooks_app.transport.memory import MemoryTransport

from ..support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db


class BrokenProvider:
    def get_tracer(self, *args, **kwargs):
        raise RuntimeError("no memory")


@pytest.fixture(params=["unknown name", "no tracer"])
def asked(request, monkeypatch):
    """The times when the provider was looked up."""
    times = []
    look_up = trace.get_tracer_provider if request.param == "unknown name" else BrokenProvider
    monkeypatch.setenv("OTEL_PYTHON_TRACER_PROVIDER", "nonsense")
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: (times.append(None), look_up())[1])
    monkeypatch.setattr(tracing, "_has_failed", threading.Event())
    return times


def assert_logged_once(asked, caplog):
    records = [record for record in caplog.records if record.name == "webhooks_app.tracing"]
    assert [record.levelno for record in records] == [logging.ERROR]
    assert len(asked) == 1


def test_events_are_emitted(alice, asked, caplog):
    emit_one(alice)
    emit_one(alice)

    assert set(Event.objects.values_list("traceparent", flat=True)) == {None}
    assert_logged_once(asked, caplog)


def test_the_api_answers(alice, asked, caplog):
    _, key = ApiKey.objects.make(owner=alice)

    answers = [Client().get("/v1/webhooks", headers={"authorization": f"Bearer {key}"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert_logged_once(asked, caplog)


def test_workers_deliver(alice, asked, caplog):
    make_webhook(alice)

    for _ in range(2):
        emit_one(alice)
        Engine(transport=MemoryTransport(transport_options())).run_until_idle()

    assert list(Delivery.objects.values_list("state", flat=True)) == ["succeeded", "succeeded"]
    assert_logged_once(asked, caplog)
