"""Values and errors as text for messages."""

from __future__ import annotations

from typing import Any

MAX_SHOWN = 200

MANY = 10**15
"""Smallest number whose digits are no longer shown."""


def short(found: object) -> str:
    """Return a value or an error as text, shortened for a message."""
    text = repr(str(found))[1:-1]
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def as_text(number: Any) -> str:
    if abs(number) < MANY:
        return f"{number:,}"
    return str(number) if isinstance(number, float) else "a very large number"
