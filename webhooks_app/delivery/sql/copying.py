"""Attempts in the text format of PostgreSQL's COPY."""

from __future__ import annotations

from functools import lru_cache

from ..attempt_log import AttemptLog, Headers
from .recording import json_of, json_of_timings, message_of

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NULL = "\\N"


def copy_line(log: AttemptLog) -> str:
    """Return the row of an attempt, with the columns in the order of ``AttemptLog``."""
    duration, timestamp, status = log.duration_ms, log.timestamp, log.response_status
    return (
        f"{log.delivery_id[-32:]}\t{log.number}\t{log.result}\t{log.message and _text(message_of(log))}"
        f"\t{log.started_at.isoformat()}\t{_text(log.url)}\t{_NULL if duration is None else duration}"
        f"\t{_NULL if timestamp is None else timestamp}\t{log.signatures.translate(_ESCAPES)}\t{log.challenge}"
        f"\t{_NULL if status is None else status}\t{_headers(log.response_headers)}"
        f"\t{log.response_body.translate(_ESCAPES)}\t{log.retry_after and _text(log.retry_after)}\t{log.peer}"
        f"\t{json_of_timings(log.timings)}\t{log.header_names and _text(log.header_names)}\t{_text(log.agent)}\n"
    )


@lru_cache(maxsize=64)
def _headers(headers: Headers) -> str:
    return json_of(headers).translate(_ESCAPES)


@lru_cache(maxsize=1024)
def _text(text: str) -> str:
    """Return an escaped short text. Cached, because URLs and agents repeat."""
    return text.translate(_ESCAPES)
