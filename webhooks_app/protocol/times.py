"""Points in time: the one way in which they are written on the wire, and which of them are taken."""

from __future__ import annotations

from datetime import UTC, datetime

EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""What somebody asks for lies between them: it can be moved a little, and told in every time zone."""


def format_time(moment: datetime) -> str:
    """Return ISO 8601 in UTC with six decimals and a Z: ``2026-01-31T12:00:00.123456Z``.

    Raises ValueError for a naive datetime: which moment it means depends on the machine.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; pass an aware datetime.")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
