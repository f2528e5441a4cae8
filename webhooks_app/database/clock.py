"""The time that decides what is due: the database's, so that workers with skewed clocks agree."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from django.db import connections

from .dialects import dialect_of


class Clock(Protocol):
    def __call__(self) -> datetime:
        """Return the time now as an aware UTC datetime, never ahead of the database's: what is due by it is due."""

    def latest(self) -> datetime:
        """Return what the time now is at the latest: a retry, which any worker may make, counts from it."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow: how long the engine waits is measured by them."""


RESYNC_SECONDS = 60.0
QUICK_SECONDS = 0.001
MAX_QUESTIONS = 5
MAX_SECONDS_OF_QUESTIONS = 0.1


class _Anchor(NamedTuple):
    """The database said ``moment`` within the ``seconds`` that ended at ``answered_at`` of the monotonic clock."""

    moment: datetime
    answered_at: float
    seconds: float = 0.0

    def time(self) -> datetime:
        return self.moment + timedelta(seconds=time.monotonic() - self.answered_at)


class DatabaseClock:
    """Asks the database once a minute and counts on with the monotonic clock in between.

    Since the answer's way back is not known, the clock lags by that time; how much it may be is the difference to
    ``latest``. After a slow answer it asks again, unless that alone takes long, and the quickest counts.

    A dialect without ``now_sql`` has this machine's clock. Only the thread that asked first asks again, because
    database connections belong to threads; others may read the time meanwhile.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._now_sql = dialect_of(using).now_sql
        self._asked: _Anchor | None = None
        self._asking_thread = 0

    def __call__(self) -> datetime:
        return self._anchor().time()

    def latest(self) -> datetime:
        anchor = self._anchor()
        return anchor.time() + timedelta(seconds=anchor.seconds)

    def monotonic(self) -> float:
        return time.monotonic()

    def _anchor(self) -> _Anchor:
        if self._now_sql is None:
            return _Anchor(datetime.now(UTC), time.monotonic())
        anchor = self._asked
        if anchor is None or (
            time.monotonic() - anchor.answered_at > RESYNC_SECONDS and threading.get_ident() == self._asking_thread
        ):
            anchor = self._asked = self._ask(f"SELECT {self._now_sql}")
            self._asking_thread = threading.get_ident()
        return anchor

    def _ask(self, query: str) -> _Anchor:
        answers: list[_Anchor] = []
        with connections[self._using].cursor() as cursor:
            for _ in range(MAX_QUESTIONS):
                asked_at = time.monotonic()
                cursor.execute(query)
                moment: datetime = cursor.fetchone()[0]
                answered_at = time.monotonic()
                moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
                answers.append(_Anchor(moment, answered_at, answered_at - asked_at))
                taken = sum(answer.seconds for answer in answers)
                if answers[-1].seconds <= QUICK_SECONDS or taken > MAX_SECONDS_OF_QUESTIONS:
                    break
        return min(answers, key=lambda answer: answer.seconds)
