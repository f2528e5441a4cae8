"""The log of one attempt: what was asked and answered, as text that any database can hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..models import DeliveryAttempt
from ..signing import SIGNATURE_HEADER, TIMESTAMP_HEADER
from ..transport import RESPONSE_KEPT, Exchange
from .outcome import Verdict

MAX_HEADERS = 100
MAX_HEADER_LENGTH = 1000


def transcript(
    *, delivery_id: str, number: int, verdict: Verdict, exchange: Exchange, started_at: datetime, challenge: str = ""
) -> DeliveryAttempt:
    """Return the unsaved log row of an exchange that began at ``started_at``."""
    sent = dict(exchange.request.headers)
    return DeliveryAttempt(
        delivery_id=delivery_id,
        number=number,
        result=verdict.result,
        message=clean(verdict.message, 500),
        started_at=started_at,
        duration_ms=round(exchange.duration_seconds * 1000),
        url=exchange.request.url,
        timestamp=int(sent[TIMESTAMP_HEADER]),
        signature=sent[SIGNATURE_HEADER],
        challenge=challenge,
        peer=exchange.peer,
        **_response_fields(exchange),
    )


def clean(text: str, limit: int) -> str:
    """Return text that every database stores: no NUL, no lone surrogates, cut to ``limit`` characters."""
    return text.replace("\0", "�").encode(errors="replace").decode()[:limit]


def _response_fields(exchange: Exchange) -> Mapping[str, Any]:
    if exchange.response is None:
        return {}
    response = exchange.response
    headers = [[clean(name, MAX_HEADER_LENGTH), clean(value, MAX_HEADER_LENGTH)] for name, value in response.headers]
    retry_after = next((value for name, value in headers if name.lower() == "retry-after"), "")
    return {
        "response_status": response.status,
        "response_headers": headers[:MAX_HEADERS],
        "response_body": clean(response.body[:RESPONSE_KEPT].decode(errors="replace"), RESPONSE_KEPT),
        "retry_after": retry_after[:100],
    }
