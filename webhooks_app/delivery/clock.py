"""The time that decides what is due: the database's, so that workers with skewed clocks agree."""

from __future__ import annotations

import threading
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

    SQLite has no clock but this machine's, which is taken as it is. Only the thread that asked first asks again,
    because database connections belong to threads; others may read the time meanwhile.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._query = _QUERIES.get(connections[using].vendor)
        self._anchor: tuple[datetime, float] | None = None
        self._asking_thread = 0

    def __call__(self) -> datetime:
        if self._query is None:
            return datetime.now(UTC)
        anchor = self._anchor
        if anchor is None or (
            time.monotonic() - anchor[1] > RESYNC_SECONDS and threading.get_ident() == self._asking_thread
        ):
            asked_at = time.monotonic()
            moment = self._ask(self._query)
            # From the middle of the question: for a clock that lags, what was just queued is not due yet.
            anchor = self._anchor = (moment, (asked_at + time.monotonic()) / 2)
            self._asking_thread = threading.get_ident()
        return anchor[0] + timedelta(seconds=time.monotonic() - anchor[1])

    def monotonic(self) -> float:
        return time.monotonic()

    def _ask(self, query: str) -> datetime:
        with connections[self._using].cursor() as cursor:
            cursor.execute(query)
            moment: datetime = cursor.fetchone()[0]
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
