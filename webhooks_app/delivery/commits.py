"""Detection of commits by a waiting engine."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Protocol

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..database.dialects import dialect_of
from .notify import NotifyEvent
from .poll_schedule import PollSchedule
from .sql import sql_for

POLL_EVERY_SECONDS = 0.04


class CommitEvent(Protocol):
    """The methods of ``threading.Event`` used by the engine."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float) -> object: ...


def commit_event(using: str, polls: PollSchedule, *, is_woken: bool) -> CommitEvent:
    """Return the event that is set by commits, the fastest kind for this database.

    If messages wake the engine, a database without notifications is polled only if that costs the server nothing.
    """
    if dialect_of(using).can_listen(using):
        return NotifyEvent(using, polls)
    if is_woken and not sql_for(using).changes_are_free:
        return threading.Event()
    return PolledEvent(using, polls)


class PolledEvent:
    """An event that is set by commits. While the engine waits, it repeats a query whose result commits change.

    Only ``set`` may be called from other threads.
    """

    def __init__(self, using: str, polls: PollSchedule) -> None:
        self._using = using
        self._polls = polls
        self._sql = sql_for(using).changes_sql
        self._seen: object = None
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def wait(self, timeout: float) -> None:
        """Wait until the event is set or a commit is detected, for at most ``timeout`` seconds."""
        end = time.monotonic() + timeout
        connection = connections[self._using]
        while not self._has_changed(connection):
            remaining = end - time.monotonic()
            if remaining <= 0 or self._event.wait(min(remaining, POLL_EVERY_SECONDS)):
                return
        self._polls.look_soon()

    def _has_changed(self, connection: BaseDatabaseWrapper) -> bool:
        if connection.connection is None:  # closed during an outage, which is handled elsewhere
            return False
        try:
            # Uses the driver's cursor, because Django's takes several times as long as SQLite itself.
            with connection.wrap_database_errors, closing(connection.connection.cursor()) as cursor:
                cursor.execute(self._sql)
                found = cursor.fetchone()
        except (DatabaseError, InterfaceError):
            return True  # the next query for due deliveries handles the error
        has_changed = bool(found != self._seen)
        self._seen = found
        return has_changed
