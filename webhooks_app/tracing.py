"""Spans of OpenTelemetry, in processes that have a tracer provider.

A process that has set one has imported OpenTelemetry, so this module never imports it. An error in OpenTelemetry, or in
one of its processors, is logged once and has no other effect.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from . import __version__
from .once import Once

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, TracerProvider

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("webhooks_app.tracing")

NAME = "webhooks_app"

TRACEPARENT = "traceparent"
"""The header of W3C Trace Context."""
TRACEPARENT_LENGTH = 55

MAX_LINKS = 128
"""The number of links that an SDK keeps of a span by default."""

EVENT_ID, EVENT_TYPE = f"{NAME}.event.id", f"{NAME}.event.type"
"""The attributes by which the spans of an event are found."""

Attributes = Mapping[str, str | int]

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")

_reported = Once()


def configured_tracing() -> Tracing | None:
    """Return what makes the spans of this process, or None without a tracer provider."""
    api: Any = sys.modules.get("opentelemetry.trace")
    return None if api is None else _of_provider(api)


def _of_provider(api: Any) -> Tracing | None:
    try:
        provider = api.get_tracer_provider()
        is_set = not isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider))
    except AttributeError:  # another thread is importing the module
        return None
    return _tracing(provider) if is_set else None


@lru_cache(maxsize=1)
def _tracing(provider: TracerProvider) -> Tracing:
    return Tracing(sys.modules["opentelemetry.trace"], provider)


def _harmless(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T | None]:
    """Return the method, with None in place of its exceptions."""

    @wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return method(self, *args, **kwargs)
        except Exception:
            if _reported.is_first(method.__name__):
                logger.exception("A span is lost, because OpenTelemetry raised an error.")
            return None

    return run


class Tracing:
    """Makes spans. Its methods return None instead of a span, and accept it, if OpenTelemetry fails."""

    def __init__(self, api: Any, provider: TracerProvider) -> None:
        self._api = api
        self._tracer = provider.get_tracer(NAME, __version__)

    @_harmless
    def start(
        self,
        name: str,
        kind: str,
        attributes: Attributes,
        *,
        parent: str | None = "",
        links: Iterable[SpanContext | None] = (),
        started_at_ns: int | None = None,
    ) -> Span:
        """Start a span of a kind such as ``CLIENT``.

        ``parent`` is a traceparent, "" for the current span, or None for the first span of a trace. A parent of a
        damaged value is none. ``started_at_ns`` are nanoseconds since 1970, by default now.
        """
        span: Span = self._tracer.start_span(
            name,
            context=None if parent == "" else self._context(parent),
            kind=self._api.SpanKind[kind],
            attributes=attributes,
            links=[self._api.Link(context) for context in links if context is not None],
            start_time=started_at_ns,
            record_exception=False,
            set_status_on_exception=False,
        )
        return span

    @_harmless
    def end(self, span: Span | None, attributes: Attributes | None = None, *, error: str = "") -> None:
        """End a span; ``error`` is the low-cardinality name of what went wrong, if anything did."""
        if span is None:
            return
        if attributes:
            span.set_attributes(attributes)
        if error:
            span.set_attribute("error.type", error)
            span.set_status(self._api.Status(self._api.StatusCode.ERROR))
        span.end()

    @_harmless
    def add(self, span: Span, attributes: Attributes) -> None:
        """Add attributes to a span that someone else ends."""
        span.set_attributes(attributes)

    @contextmanager
    def current(self, span: Span | None) -> Iterator[None]:
        """Make this the current span, and its end the end of the block if that raises an exception.

        The message of the exception is left out, because it may quote data.
        """
        if span is None:
            yield
            return
        with self._api.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BaseException as error:
                self.end(span, error=type(error).__name__)
                raise

    @_harmless
    def surrounding(self) -> Span | None:
        """Return the current span, or None without one."""
        span: Span = self._api.get_current_span()
        return span if span.get_span_context().is_valid else None

    @_harmless
    def traceparent(self, span: Span | None) -> str | None:
        """Return the traceparent of a span; None without one."""
        if span is None or not (context := span.get_span_context()).is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"

    @_harmless
    def context_of(self, traceparent: str | None) -> SpanContext | None:
        """Return the span that a traceparent names; None without a valid one."""
        found = _TRACEPARENT.fullmatch(traceparent or "")
        if found is None:
            return None
        trace_id, span_id, flags = (int(digits, 16) for digits in found.groups())
        context: SpanContext = self._api.SpanContext(
            trace_id, span_id, is_remote=True, trace_flags=self._api.TraceFlags(flags)
        )
        return context

    def _context(self, traceparent: str | None) -> Context:
        remote = self.context_of(traceparent)
        span = self._api.INVALID_SPAN if remote is None else self._api.NonRecordingSpan(remote)
        context: Context = self._api.set_span_in_context(span)
        return context
