"""Attempts in the text format of PostgreSQL's COPY."""

from __future__ import annotations

from ..attempt_log import AttemptLog
from .recording import json_of, json_of_timings, message_of

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def copy_line(log: AttemptLog) -> str:
    """Return the row of an attempt, with the columns in the order of ``AttemptLog``."""
    return (
        f"{log.delivery_id[-32:]}\t{log.number}\t{log.result}\t{_text(message_of(log))}"
        f"\t{log.started_at.isoformat()}\t{_text(log.url)}\t{_number(log.duration_ms)}\t{_number(log.timestamp)}"
        f"\t{_text(log.signatures)}\t{log.challenge}\t{_number(log.response_status)}\t{_text(json_of(log.response_headers))}"
        f"\t{_text(log.response_body)}\t{_text(log.retry_after)}\t{log.peer}\t{json_of_timings(log.timings)}"
        f"\t{_text(log.header_names)}\t{_text(log.agent)}\n"
    )


def _number(value: int | None) -> str:
    return "\\N" if value is None else str(value)


def _text(text: str) -> str:
    return text.translate(_ESCAPES) if text else ""
