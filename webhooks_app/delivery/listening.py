"""The sources of a worker's events, which tell the schedule of commits, each with its cost.

PostgreSQL notifies a waiting worker. Other databases are polled by it, or a message of the host wakes it.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any, Protocol, TypeAlias

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..database.dialects import dialect_of
from .schedule import Now, Schedule
from .sql import sql_for

ScheduleEvent: TypeAlias = Callable[[Schedule, Now], Schedule]
"""What happened, as its effect on the schedule."""

Tell: TypeAlias = Callable[[ScheduleEvent], object]

CHANNEL = "webhooks_app_due"

MORE_FOLLOW = "+"
"""Prefix of the payload if the process commits so often that it suspends notifications."""

POLL_EVERY_SECONDS = 0.04


class NotifyEvent:
    """An event set by PostgreSQL's notifications, at the cost of one LISTEN per connection and of no query.

    A notification names webhooks, and ``tell`` is called with it. Only ``set`` may be called from other threads.
    """

    def __init__(self, using: str, tell: Tell) -> None:
        self._using = using
        self._tell = tell
        self._is_set = False
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
            weakref.finalize(self, os.close, end)  # closed only once no thread can call set()
        self._heard: Any = None
        self._deaf: Any = None

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            with suppress(BlockingIOError):
                os.write(self._writing, b"\0")

    def clear(self) -> None:
        """Clear the event, and take the notifications that have arrived since the last wait."""
        self._is_set = False
        with suppress(BlockingIOError):
            os.read(self._reading, 4096)
        connection = connections[self._using].connection
        if connection is not None and connection is self._heard and not connection.closed:
            self._take_notifications(connection)

    def wait(self, timeout: float) -> None:
        """Wait until the event is set or a notification arrives, for at most ``timeout`` seconds."""
        connection = self._connection()
        if self._is_set:
            return
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        if connection is not None:
            poll.register(connection.fileno(), select.POLLIN)
        ready = [fd for fd, _ in poll.poll(math.ceil(1000 * timeout))]
        if connection is not None and connection.fileno() in ready:
            self._take_notifications(connection)

    def _connection(self) -> Any:
        """Return the driver's connection after LISTEN, or None if it cannot listen."""
        connection = connections[self._using].connection
        if connection is None or connection is self._deaf or connection.closed:
            return None
        if connection is not self._heard:
            try:
                connection.execute(f"LISTEN {CHANNEL}")
            except connection.Error:
                self._deaf = connection  # the next query raises the error
                return None
            connection.add_notify_handler(self._on_notice)
            self._heard = connection
            self._tell(Schedule.listening)
            self._is_set = True
        return connection

    def _on_notice(self, notice: Any) -> None:
        """Handle a notification that arrives with the result of a query."""
        self._is_set = True
        self._pass_on(notice.payload)

    def _take_notifications(self, connection: Any) -> None:
        try:
            connection.pgconn.consume_input()
            while notice := connection.pgconn.notifies():
                self._pass_on(notice.extra.decode())
        except connection.Error:
            self._deaf = connection
            self._tell(Schedule.asked)

    def _pass_on(self, payload: str) -> None:
        ids = payload.removeprefix(MORE_FOLLOW)
        webhook_ids = [f"wh_{digits}" for digits in ids.split(",")] if ids else []
        self._tell(partial(Schedule.named, webhook_ids=webhook_ids, more_follow=payload.startswith(MORE_FOLLOW)))


class CommitEvent(Protocol):
    """The methods of ``threading.Event`` used by a worker."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float) -> object: ...


def commit_event(using: str, tell: Tell, *, is_woken: bool) -> CommitEvent:
    """Return the event that is set by commits and calls ``tell``, the fastest kind for this database.

    If messages wake the engine, a database without notifications is polled only if that costs the server nothing. The
    worker waits then for ``wake`` alone, at no cost of its own.
    """
    if dialect_of(using).can_listen(using):
        return NotifyEvent(using, tell)
    if is_woken and not sql_for(using).changes_are_free:
        return threading.Event()
    return PolledEvent(using, tell)


class PolledEvent:
    """An event set by commits, at the cost of a query every 40 ms of a wait: one index entry, or a number in SQLite.

    A commit changes the result of the query, which names no webhook. Only ``set`` may be called from other threads.
    """

    def __init__(self, using: str, tell: Tell) -> None:
        self._using = using
        self._tell = tell
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
        self._tell(Schedule.asked)

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
