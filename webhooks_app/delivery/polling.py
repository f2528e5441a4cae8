"""Looks for due deliveries: their schedule, and the commits that make one due.

PostgreSQL notifies a waiting engine of commits, and other databases are polled.
"""

from __future__ import annotations

import heapq
import math
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import datetime
from typing import Any, Protocol

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..database.clock import Clock
from ..database.dialects import dialect_of
from .sql import sql_for

LINGER_SECONDS = 0.25
"""How long an idle engine continues to query, so that new work need not wake it. If the database notifies of commits,
and the last claim left nothing, it queries only once after this time, as a precaution."""

LOOK_EVERY_SECONDS = 0.005
LOOK_EVERY_SECONDS_LISTENING = 0.05
"""The same if the database notifies of commits, and the last claim may have left something."""

LOOK_SHARE = 0.1
"""Maximum share of a lingering engine's time for queries. Slow queries are therefore less frequent."""

UNNOTIFIED_SECONDS = 0.1
"""How long a process suspends notifications after announcing it."""

CHANNEL = "webhooks_app_due"

MORE_FOLLOW = "+"
"""Prefix of the payload if the process commits so often that it suspends notifications."""

POLL_EVERY_SECONDS = 0.04


class PollSchedule:
    """The times of queries for due deliveries ("looks").

    A look is due when the engine is woken, at expected due times, every few ms while lingering, and at each sweep. A
    notification with webhooks makes only a claim from these due. ``wake``, ``expect`` and ``look_soon`` are
    thread-safe.
    """

    def __init__(self, clock: Clock, *, sweep_seconds: float) -> None:
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._expected: deque[datetime] = deque()
        self._moments: list[datetime] = []
        self._named: dict[str, None] = {}
        self._woken = threading.Event()
        self._next_look_at = 0.0
        self._is_look_asked_for = False
        self._linger_until = 0.0
        self._look_often_until = 0.0
        self.is_listening = False
        """Whether the database notifies of commits."""

    @property
    def expects_work(self) -> bool:
        return bool(self._moments or self._expected)

    def wake(self) -> None:
        """Make a look due now."""
        self._woken.set()

    def expect(self, moments: Iterable[datetime]) -> None:
        """Make looks due at the times of retries."""
        self._expected.extend(moments)

    def look_at(self, at: datetime) -> None:
        """Make a look due at the time of a rate limit's next slot."""
        heapq.heappush(self._moments, at)

    def look_soon(self) -> None:
        """Make a look due now, because of new work or free slots. During a look, it makes another one due."""
        self._is_look_asked_for = True

    def notified(self, webhook_ids: Iterable[str], *, more_follow: bool) -> None:
        """Make a claim from these webhooks due, or a look without any.

        With ``more_follow``, the sender commits so often that it suspends its notifications.
        """
        if more_follow:
            self._look_often_until = self._clock.monotonic() + UNNOTIFIED_SECONDS + LOOK_EVERY_SECONDS
            self._next_look_at = min(self._next_look_at, self._clock.monotonic() + LOOK_EVERY_SECONDS)
        named = dict.fromkeys(webhook_ids)
        self._named.update(named)
        self._is_look_asked_for = self._is_look_asked_for or not named

    def take_named(self) -> list[str]:
        """Return the webhooks named since the last look."""
        named, self._named = list(self._named), {}
        return named

    def is_look_due(self) -> bool:
        """Return True if a claim is due: from the named webhooks or, without any, from all."""
        if self._woken.is_set() or self._take_due_moments():
            self._woken.clear()
            self._next_look_at = 0.0
            self._linger_until = self._clock.monotonic() + LINGER_SECONDS
        if self._is_look_asked_for:
            self._is_look_asked_for = False
            self._next_look_at = 0.0
        if self._clock.monotonic() >= self._next_look_at:
            self._named.clear()  # included in the look
            return True
        return bool(self._named)

    def looked(self, *, found: bool, took_seconds: float, is_complete: bool = False) -> None:
        """Schedule the next look after one with this result and duration.

        ``is_complete`` is True if everything due was claimed.
        """
        now = self._clock.monotonic()
        if found:
            self._linger_until = now + LINGER_SECONDS
        # Only a look that starts after the suspension finds all commits of that time.
        is_unnotified = now - took_seconds < self._look_often_until
        often = is_unnotified or not self.is_listening
        soon = now + max(LOOK_EVERY_SECONDS if often else _next_look(is_complete), took_seconds / LOOK_SHARE)
        if is_unnotified:
            self._next_look_at = min(soon, max(now + LOOK_EVERY_SECONDS, self._look_often_until))
        else:
            self._next_look_at = soon if now < self._linger_until else now + self._sweep_seconds

    def claimed_named(self, *, is_complete: bool) -> None:
        """Schedule a look after a claim from named webhooks."""
        self._next_look_at = min(self._next_look_at, self._clock.monotonic() + _next_look(is_complete))

    def seconds_to_look(self) -> float:
        """Return the seconds until the next look is due."""
        if self._is_look_asked_for or self._named or self._woken.is_set():
            return 0.0
        self._take_expected()
        seconds = self._next_look_at - self._clock.monotonic()
        if self._moments:
            seconds = min(seconds, (self._moments[0] - self._clock()).total_seconds())
        return max(0.0, seconds)

    def _take_due_moments(self) -> bool:
        self._take_expected()
        now = self._clock()
        is_due = bool(self._moments) and self._moments[0] <= now
        while self._moments and self._moments[0] <= now:
            heapq.heappop(self._moments)
        return is_due

    def _take_expected(self) -> None:
        while self._expected:
            heapq.heappush(self._moments, self._expected.popleft())


def _next_look(is_complete: bool) -> float:
    return LINGER_SECONDS if is_complete else LOOK_EVERY_SECONDS_LISTENING


class NotifyEvent:
    """A ``threading.Event`` that is also set by PostgreSQL's notifications, which it passes to ``polls``.

    Only ``set`` may be called from other threads.
    """

    def __init__(self, using: str, polls: PollSchedule) -> None:
        self._using = using
        self._polls = polls
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
            self._polls.is_listening = True
            # For earlier commits. One of them may have announced the suspension of notifications.
            self._polls.notified((), more_follow=True)
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
            self._polls.look_soon()

    def _pass_on(self, payload: str) -> None:
        ids = payload.removeprefix(MORE_FOLLOW)
        webhook_ids = [f"wh_{digits}" for digits in ids.split(",")] if ids else []
        self._polls.notified(webhook_ids, more_follow=payload.startswith(MORE_FOLLOW))


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
