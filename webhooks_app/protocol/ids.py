"""Public identifiers: a prefix, then a time-ordered and unguessable part."""

from __future__ import annotations

import re
import secrets
import time
from datetime import UTC, datetime, timedelta

RANDOM_HEX_DIGITS = 20
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_id(prefix: str, moment: datetime | None = None) -> str:
    """Return ``<prefix>_`` and 32 hexadecimal digits: 48 bits of Unix milliseconds, 80 random bits.

    The time is ``moment``, by default the current time of this machine.
    """
    digits = time_digits() if moment is None else f"{(moment - EPOCH) // timedelta(milliseconds=1):012x}"
    return f"{prefix}_{digits}{secrets.token_hex(RANDOM_HEX_DIGITS // 2)}"


def new_ordered_id(prefix: str, moment: datetime) -> str:
    """Return an identifier ordered to the microsecond, with 68 random bits, for objects without a public URL."""
    milliseconds, rest = divmod((moment - EPOCH) // timedelta(microseconds=1), 1000)
    return f"{prefix}_{milliseconds:012x}{rest:03x}{secrets.token_hex(RANDOM_HEX_DIGITS // 2)[3:]}"


def pattern_of(prefix: str) -> re.Pattern[str]:
    """Return the pattern that identifiers with this prefix match as a whole."""
    return re.compile(rf"{prefix}_[0-9a-f]{{32}}")


def time_of(public_id: str) -> datetime:
    """Return the creation time in an identifier, to the millisecond, by the clock of the machine that made it."""
    return datetime.fromtimestamp(milliseconds_of(public_id) / 1000, UTC)


def milliseconds_of(public_id: str) -> int:
    """Return the creation time in an identifier as Unix time in milliseconds."""
    return int(public_id[-32:-RANDOM_HEX_DIGITS], 16)


def first_id_at(prefix: str, moment: datetime) -> str:
    """Return the lower bound of the identifiers that are made at ``moment`` or later."""
    milliseconds = max(0, (moment - EPOCH) // timedelta(milliseconds=1))
    return f"{prefix}_{milliseconds:012x}{'0' * RANDOM_HEX_DIGITS}"


def last_id_like(public_id: str) -> str:
    """Return the upper bound of the identifiers of the same millisecond."""
    return f"{public_id[:-RANDOM_HEX_DIGITS]}{'f' * RANDOM_HEX_DIGITS}"


def attempt_id(delivery_id: str, number: int) -> str:
    """Return the identifier of a delivery's attempt: the delivery's own digits, and two for the number."""
    return f"att_{delivery_id.partition('_')[2]}{number:02x}"


def id_before(public_id: str) -> str:
    """Return the identifier immediately before this one."""
    prefix, _, digits = public_id.partition("_")
    return f"{prefix}_{max(0, int(digits, 16) - 1):032x}"


def time_digits() -> str:
    """Return 12 hexadecimal digits of the current time, by which identifiers are ordered."""
    return f"{time.time_ns() // 1_000_000:012x}"


def order_of_creation(public_id: str, created_at: datetime) -> tuple[int, datetime]:
    """Return a sort key for sending events again. Identifiers of one millisecond are in random order."""
    return milliseconds_of(public_id), created_at
