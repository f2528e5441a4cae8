"""The log of one attempt: what was asked and answered, as text that any database can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from ..ids import new_id
from ..signing import SIGNATURE_HEADER, TIMESTAMP_HEADER
from ..transport import RESPONSE_KEPT, Exchange
from .outcome import Verdict

MAX_HEADERS = 100
MAX_HEADER_LENGTH = 1000
MAX_MESSAGE_LENGTH = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptLog:
    """A row of DeliveryAttempt as plain values, field by field in the order of the table."""

    id: str
    delivery_id: str
    number: int
    result: str
    message: str
    started_at: datetime
    duration_ms: int | None = None
    url: str
    timestamp: int | None = None
    signature: str = ""
    challenge: str = ""
    response_status: int | None = None
    response_headers: list[list[str]]
    response_body: str = ""
    retry_after: str = ""
    peer: str = ""

    def without_response_text(self) -> AttemptLog:
        return replace(self, response_headers=[], response_body="", retry_after="")


def log_exchange(
    *, delivery_id: str, number: int, verdict: Verdict, exchange: Exchange, started_at: datetime, challenge: str = ""
) -> AttemptLog:
    """Return the log of an exchange that began at ``started_at``."""
    sent = dict(exchange.request.headers)
    response = exchange.response
    headers = _headers(response.headers) if response else []
    return AttemptLog(
        id=new_id("att"),
        delivery_id=delivery_id,
        number=number,
        result=verdict.result.value,
        message=clean(verdict.message, MAX_MESSAGE_LENGTH),
        started_at=started_at,
        duration_ms=round(exchange.duration_seconds * 1000),
        url=exchange.request.url,
        timestamp=int(sent[TIMESTAMP_HEADER]),
        signature=sent[SIGNATURE_HEADER],
        challenge=challenge,
        response_status=response.status if response else None,
        response_headers=headers,
        response_body=_body(response.body) if response else "",
        retry_after=next((value[:100] for name, value in headers if name.lower() == "retry-after"), ""),
        peer=exchange.peer,
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
        response_headers=[],
    )


def clean(text: str, limit: int) -> str:
    """Return text that every database stores: no NUL, no lone surrogates, cut to ``limit`` characters."""
    if text.isascii():
        return text.replace("\0", "�")[:limit]
    return text.replace("\0", "�").encode(errors="replace").decode()[:limit]


def _headers(headers: tuple[tuple[str, str], ...]) -> list[list[str]]:
    return [[clean(name, MAX_HEADER_LENGTH), clean(value, MAX_HEADER_LENGTH)] for name, value in headers[:MAX_HEADERS]]


def _body(body: bytes) -> str:
    return clean(body[:RESPONSE_KEPT].decode(errors="replace"), RESPONSE_KEPT)
