"""The database's time, which decides about due times so that workers with different clocks agree."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from django.db import connections
from django.utils import timezone

from .dialects import dialect_of


class Clock(Protocol):
    def __call__(self) -> datetime:
        """Return the current time in UTC, never ahead of the database's."""

    def latest(self) -> datetime:
        """Return an upper bound of the current time. Retries count from it, because any worker may send them."""

    def monotonic(self) -> float:
        """Return the seconds of a monotonic clock, for measuring the waits of the engine."""


_followed: ContextVar[Callable[[], datetime] | None] = ContextVar("webhooks_app_clock", default=None)


@contextmanager
def following(clock: Callable[[], datetime]) -> Iterator[None]:
    """Use a clock for the times and identifiers of all rows created within the block, in this thread or task.

    Workers use the database's, so that a wrong clock of their machine affects no row.
    """
    token = _followed.set(clock)
    try:
        yield
    finally:
        _followed.reset(token)


def now() -> datetime:
    """Return the current time of the followed clock, or else of the machine's."""
    clock = _followed.get()
    return timezone.now() if clock is None else clock()


def is_followed() -> bool:
    """Return True within a block of ``following``."""
    return _followed.get() is not None


RESYNC_SECONDS = 60.0
MAX_DRIFT_SECONDS = 1.0
"""Drift between the machine's clocks after which the time is read again: a suspension stops the monotonic one."""

QUICK_SECONDS = 0.001
MAX_QUERIES = 5
MAX_QUERY_SECONDS = 0.1


class _Anchor(NamedTuple):
    """The database's time ``moment``, from a query that took ``seconds`` and ended at ``answered_at`` (monotonic)."""

    moment: datetime
    answered_at: float
    answered_at_by_wall_clock: float
    seconds: float = 0.0

    def time(self) -> datetime:
        return self.moment + timedelta(seconds=time.monotonic() - self.answered_at)

    def not_before(self, earlier: _Anchor) -> _Anchor:
        """Return this reading, no less than an earlier one says, as far as the duration of its query permits that.

        A slow query would otherwise set the clock back, and an attempt could be recorded before it was due.
        """
        elapsed = timedelta(seconds=self.answered_at - earlier.answered_at)
        ahead = min(earlier.moment + elapsed - self.moment, timedelta(seconds=self.seconds))
        if ahead <= timedelta(0):
            return self
        return self._replace(moment=self.moment + ahead, seconds=self.seconds - ahead.total_seconds())

    def is_outdated(self) -> bool:
        elapsed = time.monotonic() - self.answered_at
        drift = time.time() - self.answered_at_by_wall_clock - elapsed
        return elapsed > RESYNC_SECONDS or abs(drift) > MAX_DRIFT_SECONDS


class DatabaseClock:
    """A clock that reads the database's time once a minute, and adds the monotonic time since.

    It also reads it after a suspension of the machine, and after a change of the machine's time.

    The transmission time of the result is unknown, so the clock lags by up to the duration of the query. ``latest``
    adds that duration. A slow query is repeated within limits, and the fastest result counts.

    Without ``now_sql`` in the dialect, the machine's clock is used. Only the first thread repeats the query, because
    database connections belong to threads. Other threads use its result.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._now_sql = dialect_of(using).now_sql
        self._last_read: _Anchor | None = None
        self._reading_thread = 0

    def __call__(self) -> datetime:
        return self._anchor().time()

    def latest(self) -> datetime:
        anchor = self._anchor()
        return anchor.time() + timedelta(seconds=anchor.seconds)

    def monotonic(self) -> float:
        return time.monotonic()

    def _anchor(self) -> _Anchor:
        if self._now_sql is None:
            return _Anchor(datetime.now(UTC), time.monotonic(), time.time())
        anchor = self._last_read
        if anchor is None or (threading.get_ident() == self._reading_thread and anchor.is_outdated()):
            read = self._read(f"SELECT {self._now_sql}")
            anchor = self._last_read = read if anchor is None else read.not_before(anchor)
            self._reading_thread = threading.get_ident()
        return anchor

    def _read(self, query: str) -> _Anchor:
        answers: list[_Anchor] = []
        with connections[self._using].cursor() as cursor:
            for _ in range(MAX_QUERIES):
                started_at = time.monotonic()
                cursor.execute(query)
                moment: datetime = cursor.fetchone()[0]
                answered_at, answered_at_by_wall_clock = time.monotonic(), time.time()
                moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
                answers.append(_Anchor(moment, answered_at, answered_at_by_wall_clock, answered_at - started_at))
                taken = sum(answer.seconds for answer in answers)
                if answers[-1].seconds <= QUICK_SECONDS or taken > MAX_QUERY_SECONDS:
                    break
        return min(answers, key=lambda answer: answer.seconds)
