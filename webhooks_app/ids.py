"""Public identifiers: a prefix, then a time-ordered and unguessable part."""

from __future__ import annotations

import secrets
import time
from datetime import datetime

RANDOM_HEX_DIGITS = 20


def new_id(prefix: str) -> str:
    """Return ``<prefix>_`` and 32 hexadecimal digits: 48 bits of Unix milliseconds, 80 random bits."""
    return f"{prefix}_{time_digits()}{secrets.token_hex(RANDOM_HEX_DIGITS // 2)}"


def first_id_at(prefix: str, moment: datetime) -> str:
    """Return what orders before every identifier made from this moment on, and after those made before."""
    return f"{prefix}_{max(0, int(moment.timestamp() * 1000)):012x}{'0' * RANDOM_HEX_DIGITS}"


def time_digits() -> str:
    """Return the 12 hexadecimal digits that order identifiers made now after all made before."""
    return f"{time.time_ns() // 1_000_000:012x}"
