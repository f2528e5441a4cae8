"""The guide to traces: its code, and the spans and attributes that it lists."""

from __future__ import annotations

import re
import sys
import types

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.transport.memory import MemoryTransport

from ..docs.pages import DOCS, blocks
from ..support.rows import emit_one, make_webhook
from ..support.spans import facts

pytestmark = pytest.mark.django_db

GUIDE = (DOCS / "guides" / "tracing.md").read_text()
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def deliver_one(alice):
    make_webhook(alice)
    emit_one(alice)
    Engine(transport=MemoryTransport(transport_options())).run_until_idle()


def test_the_code_of_the_guide_traces_a_delivery(alice, monkeypatch):
    exporter = InMemorySpanExporter()
    stub = types.ModuleType(EXPORTER)
    stub.OTLPSpanExporter = lambda: exporter
    monkeypatch.setitem(sys.modules, EXPORTER, stub)
    monkeypatch.setattr(
        trace, "set_tracer_provider", lambda made: monkeypatch.setattr(trace, "get_tracer_provider", lambda: made)
    )
    (block,) = [block for block in blocks("python", under=("guides/tracing",)) if block.file == "mysite/traces.py"]
    names = {}
    exec(compile(block.code, str(block), "exec"), names)

    names["start_tracing"]()
    deliver_one(alice)

    provider = trace.get_tracer_provider()
    provider.shutdown()
    spans = exporter.get_finished_spans()
    assert {span.name.split()[0] for span in spans} == {"emit", "claim", "attempt"}
    assert {span.resource.attributes["service.name"] for span in spans} == {"mysite"}


def test_the_guide_lists_every_attribute(alice, spans):
    listed = set(re.findall(r"`(webhooks_app\.\w+\.\w+)`", GUIDE))

    deliver_one(alice)

    made = {name for span in spans.all() for name in facts(span) if name.startswith("webhooks_app.")}
    assert made == listed - {"webhooks_app.api.operation"}
