"""The time that decides what is due: the database's, so that workers with skewed clocks agree."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from django.db import connections


class Clock(Protocol):
    def __call__(self) -> datetime:
        """Return the time now as an aware UTC datetime, never ahead of the database's: what is due by it is due."""

    def latest(self) -> datetime:
        """Return what the time now is at the latest: a wait that begins now, and ends for all, counts from it."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow: how long the engine waits is measured by them."""


RESYNC_SECONDS = 60.0
QUICK_SECONDS = 0.001
MAX_QUESTIONS = 5

_QUERIES = {"postgresql": "SELECT statement_timestamp()", "mysql": "SELECT UTC_TIMESTAMP(6)"}


class _Anchor(NamedTuple):
    """The database said ``moment`` within the ``seconds`` that ended at ``answered_at`` of the monotonic clock."""

    seconds: float
    answered_at: float
    moment: datetime


class DatabaseClock:
    """Asks the database once a minute and counts on with the monotonic clock in between.

    Since the answer's way back is not known, the clock lags by that time; how much it may be is the difference to
    ``latest``. A slow answer is asked for again, and the quickest counts.

    SQLite has no clock but this machine's, which is taken as it is. Only the thread that asked first asks again,
    because database connections belong to threads; others may read the time meanwhile.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._query = _QUERIES.get(connections[using].vendor)
        self._anchor: _Anchor | None = None
        self._asking_thread = 0

    def __call__(self) -> datetime:
        if self._query is None:
            return datetime.now(UTC)
        anchor = self._anchor
        if anchor is None or (
            time.monotonic() - anchor.answered_at > RESYNC_SECONDS and threading.get_ident() == self._asking_thread
        ):
            anchor = self._anchor = self._ask(self._query)
            self._asking_thread = threading.get_ident()
        return anchor.moment + timedelta(seconds=time.monotonic() - anchor.answered_at)

    def latest(self) -> datetime:
        now = self()
        return now + timedelta(seconds=self._anchor.seconds) if self._anchor else now

    def monotonic(self) -> float:
        return time.monotonic()

    def _ask(self, query: str) -> _Anchor:
        answers: list[_Anchor] = []
        with connections[self._using].cursor() as cursor:
            while len(answers) < MAX_QUESTIONS and (not answers or answers[-1].seconds > QUICK_SECONDS):
                asked_at = time.monotonic()
                cursor.execute(query)
                moment: datetime = cursor.fetchone()[0]
                answered_at = time.monotonic()
                moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
                answers.append(_Anchor(answered_at - asked_at, answered_at, moment))
        return min(answers)
