"""The spans of claims and attempts, and the header by which a receiver continues the trace of an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from ..conf import settings
from ..tracing import (
    EVENT_ID,
    EVENT_TYPE,
    MAX_LINKS,
    NAME,
    TRACE_HEADERS,
    TRACEPARENT,
    Attributes,
    Tracing,
    configured_tracing,
)
from ..transport import Request
from .claim import Claim, Finished
from .outcome import Result
from .sending import Sending

PORTS = {"http": 80, "https": 443}


def delivery_spans() -> DeliverySpans | None:
    """Return what makes the spans of a worker; None if it traces nothing and sends no traceparent."""
    tracing, sends = configured_tracing(), settings.SEND_TRACEPARENT
    return DeliverySpans(tracing, sends_traceparent=sends) if tracing or sends else None


class DeliverySpans:
    """The spans of one worker. Thread-safe.

    Without ``tracing``, requests have the traceparent that the emitting process stored.
    """

    def __init__(self, tracing: Tracing | None, *, sends_traceparent: bool) -> None:
        self._tracing = tracing
        self._sends_traceparent = sends_traceparent

    def claimed(self, claims: Sequence[Claim], began_at_ns: int) -> Sequence[Claim]:
        """Return claims that were made since then, with their span, which links to those of their events."""
        if self._tracing is None or not claims:
            return claims
        attributes: Attributes = {
            "messaging.system": NAME,
            "messaging.operation.name": "claim",
            "messaging.operation.type": "receive",
            "messaging.batch.message_count": len(claims),
        }
        origins = list(dict.fromkeys(claim.traceparent for claim in claims if claim.traceparent))
        links = [self._tracing.context_of(origin) for origin in origins[:MAX_LINKS]]
        span = self._tracing.start("claim", "CONSUMER", attributes, parent=None, links=links, started_at_ns=began_at_ns)
        self._tracing.end(span)
        claimed_in = self._tracing.traceparent(span)
        return [claim._replace(claimed_in=claimed_in) for claim in claims]

    def started(self, request: Request) -> Request:
        """Return the request of an attempt that starts now, with its span, and with its traceparent if that is sent."""
        sending: Sending = request.context
        traceparent = sending.claim.traceparent
        if self._tracing is not None:
            span = self._start(self._tracing, sending.claim)
            traceparent = self._tracing.traceparent(span)
            sending = sending._replace(span=span)
        if self._sends_traceparent:
            own = [(TRACEPARENT, traceparent)] if traceparent else []
            # A webhook's own headers may have such a name since before it was reserved.
            headers = [header for header in request.headers if header[0].lower() not in TRACE_HEADERS]
            names = [name for name in sending.header_names.split(",") if name and name.lower() not in TRACE_HEADERS]
            sending = sending._replace(header_names=",".join([*names, *dict(own)]))
            request = request._replace(headers=(*headers, *own))
        return request._replace(context=sending)

    def ended(self, sending: Sending, finished: Finished) -> None:
        """End the span of an attempt."""
        if self._tracing is not None:
            self._tracing.end(sending.span, _results(finished), error=_error(finished))

    def postponed(self, sending: Sending) -> None:
        """End the span of an attempt that is not made now."""
        if self._tracing is not None:
            self._tracing.end(sending.span, {f"{NAME}.attempt.result": "postponed"})

    def unsent(self, finished: Sequence[Finished]) -> None:
        """Record the spans of attempts whose request could not be made, or whose worker was lost."""
        if self._tracing is None:
            return
        for item in finished:
            started_at_ns = int(item.attempt.started_at.timestamp() * 1e9)
            span = self._start(self._tracing, item.claim, started_at_ns)
            self._tracing.end(span, _results(item), error=_error(item))

    def _start(self, tracing: Tracing, claim: Claim, started_at_ns: int | None = None) -> Any:
        """Start the span of an attempt, as a part of the trace of its event, with a link to its claim."""
        return tracing.start(
            f"attempt {claim.event_type}",
            "CLIENT",
            _facts(claim),
            parent=claim.traceparent,
            links=[tracing.context_of(claim.claimed_in)],
            started_at_ns=started_at_ns,
        )


def _facts(claim: Claim) -> Attributes:
    """Return what is known of an attempt before its request. Of the URL, only the server: the rest may have a token."""
    facts: dict[str, str | int] = {
        "http.request.method": "POST",
        EVENT_TYPE: claim.event_type,
        f"{NAME}.webhook.id": claim.webhook_id,
        f"{NAME}.delivery.id": claim.delivery_id,
        f"{NAME}.delivery.kind": str(claim.kind),
        f"{NAME}.attempt.number": claim.number,
    }
    if claim.event_id:
        facts[EVENT_ID] = claim.event_id
    if claim.number > 1:
        facts["http.request.resend_count"] = claim.number - 1
    return {**facts, **_server(claim.lane.url)}


def _server(url: str) -> Attributes:
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        return {}
    return {"url.scheme": parts.scheme, "server.address": parts.hostname or "", "server.port": port}


def _results(finished: Finished) -> Attributes:
    results: dict[str, str | int] = {
        f"{NAME}.attempt.result": finished.attempt.result,
        f"{NAME}.delivery.state": finished.step.state.value,
    }
    if finished.attempt.response_status is not None:
        results["http.response.status_code"] = finished.attempt.response_status
    return results


def _error(finished: Finished) -> str:
    """Return the status or the result of a failed attempt; "" for a successful one."""
    result, status = finished.attempt.result, finished.attempt.response_status
    if result == Result.SUCCEEDED:
        return ""
    return str(status) if result == Result.HTTP_STATUS else result
