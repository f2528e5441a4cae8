"""The one way in which points in time are written on the wire."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """Return ISO 8601 in UTC with six decimals and a Z: ``2026-01-31T12:00:00.123456Z``.

    Raises ValueError for a naive datetime: which moment it means depends on the machine.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; pass an aware datetime.")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
