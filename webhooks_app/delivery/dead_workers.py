"""Detection of dead workers. Their claims end immediately instead of at the end of their leases."""

from __future__ import annotations

import logging
import math
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connections

from ..database.clock import Clock
from ..database.dialects import dialect_of
from ..database.dialects.base import Session
from ..models import WorkerSession
from .outage import Outage
from .sql import sql_for

logger = logging.getLogger("webhooks_app.delivery")

LOOK_SECONDS = 1.0

DEAD_AFTER_SECONDS = 3.0
"""Time for a worker whose session has ended to reconnect."""

DEAD_AFTER_SECONDS_ALONE = 13.0
"""Maximum age of a heartbeat without session information. With the intervals on both sides it is 15 s."""

PRESENT_SECONDS = 15.0
"""Minimum time since an outage of the database before workers are declared dead, because others may be reconnecting."""

MAX_PAUSE_SECONDS = 8.0
"""A longer pause between two checks is an interruption: this process, or the database, was frozen."""


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
        rows = list(WorkerSession.objects.using(self._using).exclude(pk=self._worker))
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
