"""The header Retry-After (RFC 9110, 10.2.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

MAX_DIGITS = 9


def parse_retry_after(value: str, now: datetime) -> timedelta | None:
    """Return the requested delay; None for a value that is missing, malformed or in the past."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text)) if len(text) <= MAX_DIGITS else timedelta(seconds=10**MAX_DIGITS)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return moment - now if moment > now else None
