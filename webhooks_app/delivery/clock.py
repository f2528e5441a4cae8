"""The time that decides what is due: the database's, so that workers with skewed clocks agree."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from django.db import connections


class Clock(Protocol):
    def __call__(self) -> datetime:
        """Return the time now as an aware UTC datetime: what is due is decided by it."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow: how long the engine waits is measured by them."""


RESYNC_SECONDS = 60.0

_QUERIES = {"postgresql": "SELECT statement_timestamp()", "mysql": "SELECT UTC_TIMESTAMP(6)"}


class DatabaseClock:
    """Asks the database once a minute and counts on with the monotonic clock in between.

    SQLite has no clock but this machine's, which is taken as it is.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._anchor: tuple[datetime, float] | None = None

    def __call__(self) -> datetime:
        if connections[self._using].vendor not in _QUERIES:
            return datetime.now(UTC)
        ticks = time.monotonic()
        if self._anchor is None or ticks - self._anchor[1] > RESYNC_SECONDS:
            self._anchor = (self._ask(), time.monotonic())
        moment, since = self._anchor
        return moment + timedelta(seconds=time.monotonic() - since)

    def monotonic(self) -> float:
        return time.monotonic()

    def _ask(self) -> datetime:
        connection = connections[self._using]
        with connection.cursor() as cursor:
            cursor.execute(_QUERIES[connection.vendor])
            moment: datetime = cursor.fetchone()[0]
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
