"""Spans of OpenTelemetry, in processes that have a tracer provider.

A process that has set one has imported OpenTelemetry, so this module imports it in no other. An error in OpenTelemetry,
or in one of its processors, is logged once and has no other effect.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from threading import Event
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
TRACE_HEADERS = frozenset((TRACEPARENT, "tracestate"))
"""The headers of W3C Trace Context."""
TRACEPARENT_LENGTH = 55

MAX_LINKS = 128
"""The number of links that an SDK keeps of a span by default."""

EVENT_ID, EVENT_TYPE = f"{NAME}.event.id", f"{NAME}.event.type"
"""The attributes by which the spans of an event are found."""

Attributes = Mapping[str, str | int]

_reported = Once()

_has_failed = Event()
"""Set if the provider failed. A wrong name costs a search in all installed packages, so it is not asked again."""


def configured_tracing() -> Tracing | None:
    """Return what makes the spans of this process, or None without a tracer provider that works."""
    api: Any = sys.modules.get("opentelemetry.trace")
    # It is incomplete while another thread imports it.
    if _has_failed.is_set() or not hasattr(api, "get_tracer_provider"):
        return None
    try:
        provider = api.get_tracer_provider()
        is_set = not isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider))
        return _tracing(provider) if is_set else None
    except Exception:
        _has_failed.set()
        logger.exception("This process makes no spans, because OpenTelemetry's tracer provider raised an error.")
        return None


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
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._api = api
        self._propagator = TraceContextTextMapPropagator()
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
        headers: dict[str, str] = {}
        if span is not None:
            self._propagator.inject(headers, self._api.set_span_in_context(span))
        return headers.get(TRACEPARENT)

    @_harmless
    def context_of(self, traceparent: str | None) -> SpanContext | None:
        """Return the span that a traceparent names; None without a valid one."""
        context: SpanContext = self._api.get_current_span(self._context(traceparent)).get_span_context()
        return context if context.is_valid else None

    def _context(self, traceparent: str | None) -> Context:
        return self._propagator.extract({TRACEPARENT: traceparent or ""})
