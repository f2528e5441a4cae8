"""What lives: the database, this worker and the others.

A worker's heartbeat is a row that shows the others which number is in use. The claims of a dead worker end immediately
instead of at the end of their leases.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from django.db import connections

from ..database.clock import Clock
from ..database.dialects import Session, dialect_of
from ..database.sql import CompiledRows
from ..models import WorkerSession
from .sql import sql_for

logger = logging.getLogger("webhooks_app.delivery")

BEAT_SECONDS, BEAT_SECONDS_ALONE = 1.0, 2.0
"""Intervals of renewal: with a visible session, and with the heartbeat alone."""

CURRENT_SECONDS, CURRENT_SECONDS_ALONE = 2.5, 10.0
"""Time after a heartbeat for which the worker counts as alive, less a margin. No request starts later."""

LOOK_SECONDS = 1.0

DEAD_AFTER_SECONDS = 3.0
"""Time for a worker whose session has ended to reconnect."""

DEAD_AFTER_SECONDS_ALONE = 13.0
"""Maximum age of a heartbeat without session information. With the intervals on both sides it is 15 s."""

PRESENT_SECONDS = 15.0
"""Minimum time since an outage of the database before workers are declared dead, because others may be reconnecting."""

MAX_PAUSE_SECONDS = 8.0
"""A longer pause between two checks is an interruption: this process, or the database, was frozen."""

FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0

OTHERS_RECORD_WITHIN_SECONDS = MAX_BACKOFF_SECONDS + 5.0
"""Time after an outage within which every other worker has reconnected and recorded its results."""


class Outage:
    """The state of an outage. Tries are repeated at growing intervals until the database is available again.

    The threads for claiming and recording share it.
    """

    def __init__(self, clock: Clock, using: str) -> None:
        self._clock = clock
        self._using = using
        self._lock = Lock()
        self._failing: set[str] = set()
        self._backoff_seconds = 0.0
        self._ask_again_at = 0.0
        self._lost_from = 0.0
        self._present_since = clock.monotonic()

    @property
    def is_open(self) -> bool:
        return bool(self._backoff_seconds)

    def has_failed(self, side: str) -> bool:
        """Return True if this side has failed and not succeeded since."""
        return side in self._failing

    @property
    def may_ask(self) -> bool:
        return self._clock.monotonic() >= self._ask_again_at

    @property
    def may_take_lost(self) -> bool:
        """Whether a claim with an expired lease is lost. Its worker may still be waiting for the database."""
        return not self.is_open and self._clock.monotonic() >= self._lost_from

    @property
    def present_seconds(self) -> float:
        """Seconds since the last outage, or 0 during one."""
        return 0.0 if self.is_open else self._clock.monotonic() - self._present_since

    def seconds_to_ask(self) -> float:
        return max(0.0, self._ask_again_at - self._clock.monotonic())

    def began(self, error: Exception, side: str = "") -> None:
        """Close the thread's connection, and schedule the next try."""
        with self._lock:
            self._failing.add(side)
            is_first = not self.is_open
            self._backoff_seconds = min(max(self._backoff_seconds * 2, FIRST_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)
            self._ask_again_at = self._clock.monotonic() + self._backoff_seconds
        if is_first:
            logger.warning("Waiting for the database: %s", " ".join(str(error).split()))
        connections[self._using].close()

    def ended(self, side: str = "") -> None:
        """Record the success of one side. The outage ends with the success of every failed side."""
        with self._lock:
            self._failing.discard(side)
            if self._failing or not self.is_open:
                return
            self._backoff_seconds = self._ask_again_at = 0.0
            self._present_since = self._clock.monotonic()
            self._lost_from = self._present_since + OTHERS_RECORD_WITHIN_SECONDS
        logger.info("The database is back.")


class Liveness:
    """The heartbeat row of one worker number. ``is_current`` is thread-safe. The rest is for the claiming thread.

    The row is written before the first claim, renewed while the engine runs, and deleted at its end. ``on_missing`` is
    called if another engine has deleted it, while ``is_current`` is still False.
    """

    def __init__(self, *, using: str, clock: Clock, worker: int, on_missing: Callable[[], object]) -> None:
        self._using = using
        self._clock = clock
        self._worker = worker
        self._on_missing = on_missing
        self._connection: Any = None
        self._session: Session | None = None
        self._is_tried = False
        self._beaten_at = self._beaten_at_by_wall_clock = -math.inf

    @property
    def is_current(self) -> bool:
        """Whether the last heartbeat is recent enough that no other engine can consider this worker dead.

        Checks both clocks: only the wall clock advances during a suspension, and only the monotonic one is never set.
        """
        return self.is_current_at(self._clock.monotonic())

    def is_current_at(self, monotonic: float) -> bool:
        limit = CURRENT_SECONDS if self._session else CURRENT_SECONDS_ALONE
        return monotonic - self._beaten_at < limit and time.time() - self._beaten_at_by_wall_clock < limit

    def seconds_to_beat(self) -> float:
        if not self.is_current:
            return 0.0
        every = BEAT_SECONDS if self._session else BEAT_SECONDS_ALONE
        return max(0.0, self._beaten_at + every - self._clock.monotonic())

    def beat(self) -> None:
        """Renew the row, or insert it again."""
        began_at, began_at_by_wall_clock = self._clock.monotonic(), time.time()
        self._find_session()
        is_missing = self._write()
        if is_missing and self._beaten_at > -math.inf:
            logger.warning("This worker was declared dead: its claims are left to others.")
            self._on_missing()
        self._beaten_at, self._beaten_at_by_wall_clock = began_at, began_at_by_wall_clock

    def end(self) -> None:
        """Delete the row at the end of the engine, with nothing in flight."""
        row = WorkerSession.objects.using(self._using).filter(pk=self._worker)
        row._raw_delete(self._using)  # noqa: SLF001 - nothing refers to it

    def _write(self) -> bool:
        """Write the row. Return True if it was missing."""
        pid, started_at = self._session or (None, None)
        values = {"session_pid": pid, "session_started_at": started_at, "seen_at": self._clock()}
        rows = WorkerSession.objects.using(self._using)
        # The first time there is none, unless a commit was not acknowledged.
        if self._is_tried and rows.filter(pk=self._worker).update(**values):
            return False
        self._is_tried = True
        rows.create(number=self._worker, **values)
        return True

    def _find_session(self) -> None:
        """Query the identity of the session, once per connection."""
        connection = connections[self._using]
        if connection.connection is None or connection.connection is not self._connection:
            self._session = dialect_of(self._using).session_of(connection)
            self._connection = connection.connection


@lru_cache(maxsize=16)
def _sessions(using: str) -> CompiledRows[WorkerSession]:
    """Return the query for all sessions, compiled once, because each worker makes it every second."""
    return CompiledRows(WorkerSession.objects.using(using).order_by())


class _Heartbeat(NamedTuple):
    seen_at: datetime
    noticed_at: float
    """The time when this worker first read the heartbeat. Its age is thus measured by one clock."""


class DeadWorkers:
    """End the claims of workers whose heartbeat has stopped. Used by one worker."""

    def __init__(self, *, using: str, clock: Clock, outage: Outage, worker: int) -> None:
        self._using = using
        self._clock = clock
        self._outage = outage
        self._worker = worker
        self._sql = sql_for(using)
        self._heartbeats: dict[int, _Heartbeat] = {}
        self._connection: Any = None
        self._looked_at = self._present_since = -math.inf

    def seconds_to_look(self) -> float:
        return max(0.0, self._looked_at + LOOK_SECONDS - self._clock.monotonic())

    def end_claims_of_dead(self) -> bool:
        """End the claims of dead workers. Return True if there were any."""
        rows = self._look()
        if min(self._outage.present_seconds, self._clock.monotonic() - self._present_since) < PRESENT_SECONDS:
            return False
        dead = [row for row in rows if self._is_dead(row)]
        return sum(self._end_claims(row) for row in dead) > 0

    def _look(self) -> list[WorkerSession]:
        """Return the other workers' sessions, and record the new heartbeats."""
        rows = [row for row in _sessions(self._using).fetch_objects({}) if row.number != self._worker]
        now = self._clock.monotonic()
        connection = connections[self._using].connection
        if connection is not self._connection or now - self._looked_at > MAX_PAUSE_SECONDS:
            self._present_since = now
        self._connection, self._looked_at = connection, now
        known = self._heartbeats
        self._heartbeats = {row.number: _Heartbeat(row.seen_at, now) for row in rows}
        for number, heartbeat in known.items():
            if number in self._heartbeats and self._heartbeats[number].seen_at == heartbeat.seen_at:
                self._heartbeats[number] = heartbeat
        return rows

    def _is_dead(self, row: WorkerSession) -> bool:
        seconds = self._clock.monotonic() - self._heartbeats[row.number].noticed_at
        connection, dialect = connections[self._using], dialect_of(self._using)
        if row.session_pid is None or row.session_started_at is None:
            is_dead = seconds >= DEAD_AFTER_SECONDS_ALONE
        else:
            session = Session(row.session_pid, row.session_started_at)
            is_dead = seconds >= DEAD_AFTER_SECONDS and not dialect.has_session(connection, session)
        return is_dead and dialect.uptime_seconds(connection) >= PRESENT_SECONDS

    def _end_claims(self, row: WorkerSession) -> bool:
        """End the claims of a worker, unless it has renewed its heartbeat or another worker has ended them."""
        number = self._sql.end_claims(row.number, row.seen_at, self._clock())
        if number is None:
            return False
        logger.warning("Worker %d is dead; the number of its claims is %d.", row.number, number)
        return True
