"""OpenTelemetry's own SDK, with an exporter that keeps the spans."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """The ended spans of a process."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("host")

    def all(self, name: str = "") -> list[ReadableSpan]:
        """Return the spans whose name begins so, in the order of their ends."""
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.all(name)
        return span


def facts(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def traceparent(span: ReadableSpan) -> str:
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent and span.parent.span_id


def linked_ids(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]
