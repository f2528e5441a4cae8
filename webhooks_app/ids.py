"""Public identifiers: a prefix, then a time-ordered and unguessable part."""

from __future__ import annotations

import secrets
import time
from datetime import datetime

RANDOM_HEX_DIGITS = 20


def new_id(prefix: str) -> str:
    """Return ``<prefix>_`` and 32 hexadecimal digits: 48 bits of Unix milliseconds, 80 random bits."""
    return f"{prefix}_{time_digits()}{secrets.token_hex(RANDOM_HEX_DIGITS // 2)}"


def time_digits() -> str:
    """Return the 12 hexadecimal digits that order identifiers made now after all made before."""
    return f"{time.time_ns() // 1_000_000:012x}"


def first_id_at(prefix: str, moment: datetime) -> str:
    """Return the identifier before which all were made before ``moment``, and after which all others."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return f"{prefix}_{milliseconds:012x}{'0' * RANDOM_HEX_DIGITS}"
