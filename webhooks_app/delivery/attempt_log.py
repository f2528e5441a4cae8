"""The log of one attempt: what was asked and answered, as text that any database can hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from ..ids import new_id
from ..signing import PREVIOUS_SIGNATURE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER
from ..transport import RESPONSE_KEPT, Exchange
from .outcome import Verdict

MAX_HEADERS = 100
MAX_HEADER_LENGTH = 1000
MAX_MESSAGE_LENGTH = 500

Headers = tuple[tuple[str, str], ...]


class AttemptLog(NamedTuple):
    """A row of DeliveryAttempt as plain values, field by field in the order of the table."""

    id: str
    delivery_id: str
    number: int
    result: str
    message: str
    started_at: datetime
    url: str
    duration_ms: int | None = None
    timestamp: int | None = None
    signature: str = ""
    challenge: str = ""
    response_status: int | None = None
    response_headers: Headers = ()
    response_body: str = ""
    retry_after: str = ""
    peer: str = ""
    timings: Mapping[str, int] = MappingProxyType({})
    previous_signature: str = ""
    agent: str = ""

    def without_response_text(self) -> AttemptLog:
        return self._replace(response_headers=(), response_body="", retry_after="")


def log_exchange(
    *, delivery_id: str, number: int, verdict: Verdict, exchange: Exchange, started_at: datetime, challenge: str = ""
) -> AttemptLog:
    """Return the log of an exchange that began at ``started_at``."""
    request, response = exchange.request, exchange.response
    sent = dict(request.headers)
    headers, retry_after = _kept(response.headers) if response else ((), "")
    return AttemptLog(
        new_id("att"),
        delivery_id,
        number,
        verdict.result.value,
        clean(verdict.message, MAX_MESSAGE_LENGTH),
        started_at,
        request.url,
        round(exchange.duration_seconds * 1000),
        int(sent[TIMESTAMP_HEADER]),
        sent[SIGNATURE_HEADER],
        challenge,
        response.status if response else None,
        headers,
        _body(response.body) if response else "",
        retry_after,
        exchange.peer,
        {stage: round(seconds * 1000) for stage, seconds in exchange.timings.items()},
        sent.get(PREVIOUS_SIGNATURE_HEADER, ""),
        sent.get("User-Agent", ""),
    )


def log_unsent(*, delivery_id: str, number: int, verdict: Verdict, url: str, started_at: datetime) -> AttemptLog:
    """Return the log of an attempt of which no exchange is known."""
    return AttemptLog(
        id=new_id("att"),
        delivery_id=delivery_id,
        number=number,
        result=verdict.result.value,
        message=clean(verdict.message, MAX_MESSAGE_LENGTH),
        started_at=started_at,
        url=url,
    )


def clean(text: str, limit: int) -> str:
    """Return text that every database stores: no NUL, no lone surrogates, cut to ``limit`` characters."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return text.replace("\0", "�")[:limit]


@lru_cache(maxsize=64)
def _kept(headers: Headers) -> tuple[Headers, str]:
    """Return the headers to be stored, and Retry-After. A receiver's answers of one second often have the same."""
    kept = tuple(
        (clean(name, MAX_HEADER_LENGTH), clean(value, MAX_HEADER_LENGTH)) for name, value in headers[:MAX_HEADERS]
    )
    return kept, next((value[:100] for name, value in kept if name.lower() == "retry-after"), "")


def _body(body: bytes) -> str:
    return clean(body[:RESPONSE_KEPT].decode(errors="replace"), RESPONSE_KEPT)
