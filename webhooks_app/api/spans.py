"""The span of a call of the REST API."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPMethod
from typing import Any

from django.db import Error
from django.http import HttpRequest

from ..models import ApiKey
from ..tracing import NAME, TRACEPARENT, Attributes, Tracing
from .authentication import SCHEME

SERVER_ERROR = 500


def answer_in_span(tracing: Tracing, view: Any, request: HttpRequest, answer: Callable[[], Any]) -> Any:
    """Answer a request within a span, or add to the one that the project's instrumentation has made for it.

    The span belongs to the trace of its caller only if that is a service. Anyone else could hide calls and their events
    by a traceparent that is not sampled, so theirs is only linked to.
    """
    if (surrounding := tracing.surrounding()) is not None:
        response = answer()
        tracing.add(surrounding, _operation(view))
        return response
    route = f"/{request.resolver_match.route}" if request.resolver_match else ""
    is_known = request.method in HTTPMethod.__members__  # any other is the client's own text
    attributes: Attributes = {
        "http.request.method": str(request.method) if is_known else "_OTHER",
        "http.route": route,
        "url.path": request.path,
        "url.scheme": str(request.scheme),
    }
    traceparent = request.headers.get(TRACEPARENT)
    caller = tracing.context_of(traceparent)
    is_trusted = caller is not None and _is_of_service(request)
    span = tracing.start(
        f"{request.method if is_known else 'HTTP'} {route}",
        "SERVER",
        attributes,
        parent=traceparent if is_trusted else None,
        links=[] if is_trusted else [caller],
    )
    with tracing.current(span):
        response = answer()
    error = str(response.status_code) if response.status_code >= SERVER_ERROR else ""
    tracing.end(span, {**_operation(view), "http.response.status_code": response.status_code}, error=error)
    return response


def _is_of_service(request: HttpRequest) -> bool:
    """Return True for a request with a service key: those are the operator's own."""
    scheme, _, text = request.headers.get("authorization", "").strip().partition(" ")
    try:
        return scheme.lower() == SCHEME.lower() and ApiKey.objects.find_service_key(text.strip()) is not None
    except Error:  # the answer fails too, and says so
        return False


def _operation(view: Any) -> Attributes:
    """Return the name of the operation in the OpenAPI document, if the view has one."""
    return {f"{NAME}.api.operation": view.operation_id} if getattr(view, "action", None) else {}
