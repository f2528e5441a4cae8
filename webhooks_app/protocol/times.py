"""Points in time: their format on the wire, and the accepted range."""

from __future__ import annotations

from datetime import UTC, datetime

EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""The accepted range of input, so that a time can be shifted slightly and converted to any time zone."""


def format_time(moment: datetime) -> str:
    """Return ISO 8601 in UTC with six decimals and a Z: ``2026-01-31T12:00:00.123456Z``.

    Raises ValueError for a naive datetime, whose meaning depends on the machine.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; pass an aware datetime.")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
