"""The heartbeat of an engine: a row that shows other engines which worker number is in use."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from django.db import connections

from ..database.clock import Clock
from ..database.dialects import dialect_of
from ..database.dialects.base import Session
from ..models import WorkerSession

logger = logging.getLogger("webhooks_app.delivery")

BEAT_SECONDS, BEAT_SECONDS_ALONE = 1.0, 2.0
"""Intervals of renewal: with a visible session, and with the heartbeat alone."""

CURRENT_SECONDS, CURRENT_SECONDS_ALONE = 2.5, 10.0
"""Time after a heartbeat for which the worker counts as alive, less a margin. No request starts later."""


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
        self._is_written = False
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
        if is_missing and self._is_written:
            logger.warning("This worker was declared dead: its claims are left to others.")
            self._on_missing()
        self._is_written = True
        self._beaten_at, self._beaten_at_by_wall_clock = began_at, began_at_by_wall_clock

    def end(self) -> None:
        """Delete the row at the end of the engine, with nothing in flight."""
        WorkerSession.objects.using(self._using).filter(pk=self._worker).delete()

    def _write(self) -> bool:
        """Write the row. Return True if it was missing."""
        pid, started_at = self._session or (None, None)
        values = {"session_pid": pid, "session_started_at": started_at, "seen_at": self._clock()}
        rows = WorkerSession.objects.using(self._using)
        if rows.filter(pk=self._worker).update(**values):
            return False
        rows.create(number=self._worker, **values)
        return True

    def _find_session(self) -> None:
        """Query the identity of the session, once per connection."""
        connection = connections[self._using]
        if connection.connection is None or connection.connection is not self._connection:
            self._session = dialect_of(self._using).session_of(connection)
            self._connection = connection.connection
