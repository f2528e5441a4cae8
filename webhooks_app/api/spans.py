"""The span of a call of the REST API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from ..tracing import NAME, TRACEPARENT, Attributes, Tracing

SERVER_ERROR = 500


def answer_in_span(tracing: Tracing, view: Any, request: HttpRequest, answer: Callable[[], Any]) -> Any:
    """Answer a request within a span, or add to the one that the project's instrumentation has made for it."""
    if (surrounding := tracing.surrounding()) is not None:
        response = answer()
        tracing.add(surrounding, _operation(view))
        return response
    route = f"/{request.resolver_match.route}" if request.resolver_match else ""
    attributes: Attributes = {
        "http.request.method": str(request.method),
        "http.route": route,
        "url.path": request.path,
        "url.scheme": str(request.scheme),
    }
    span = tracing.start(f"{request.method} {route}", "SERVER", attributes, parent=request.headers.get(TRACEPARENT))
    with tracing.current(span):
        response = answer()
    error = str(response.status_code) if response.status_code >= SERVER_ERROR else ""
    tracing.end(span, {**_operation(view), "http.response.status_code": response.status_code}, error=error)
    return response


def _operation(view: Any) -> Attributes:
    """Return the name of the operation in the OpenAPI document, if the view has one."""
    return {f"{NAME}.api.operation": view.operation_id} if getattr(view, "action", None) else {}
