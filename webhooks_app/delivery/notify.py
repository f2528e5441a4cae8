"""PostgreSQL's NOTIFY as the shortest way from a commit to an engine that sleeps.

It is a hint: nothing is lost with it. It does not arrive behind a pooler that shares connections by transaction.
"""

from __future__ import annotations

import logging
import math
import os
import select
import threading
import time
import weakref
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from ..database.dialects import dialect_of
from .poll_schedule import UNNOTIFIED_SECONDS, PollSchedule

logger = logging.getLogger("webhooks_app.wake")

CHANNEL = "webhooks_app_due"

MAX_NAMED = 200
"""Webhooks to a notification, whose payload may have 8,000 bytes."""

MORE_FOLLOW = "+"
"""Begins the payload of a process that commits so often that it sends no more notifications for a while."""

PER_SECOND, BURST = 500.0, 50.0


class NotifyRate:
    """The notifications of one process: each commit's, until it commits more often than engines look anyway."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens = BURST
        self._at = -math.inf
        self._quiet_until = -math.inf

    def take(self) -> str | None:
        """Return the beginning of the payload for a commit now; None if no notification is needed."""
        now = time.monotonic()
        with self._lock:
            if now < self._quiet_until:
                return None
            self._tokens = min(BURST, self._tokens + (now - self._at) * PER_SECOND)
            self._at = now
            if self._tokens >= 1:
                self._tokens -= 1
                return ""
            self._quiet_until = now + UNNOTIFIED_SECONDS
            return MORE_FOLLOW


_rate = NotifyRate()


def notify(using: str, webhook_ids: Collection[str] = ()) -> None:
    """Notify engines that these webhooks, or any, have something due, where the database can."""
    if not dialect_of(using).can_notify or (prefix := _rate.take()) is None:
        return
    named = ",".join(pk[-32:] for pk in webhook_ids) if len(webhook_ids) <= MAX_NAMED else ""
    try:
        with connections[using].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, prefix + named])
    except (DatabaseError, InterfaceError) as error:
        logger.debug("No notification was sent: %s", error)


class NotifyEvent:
    """A ``threading.Event`` that PostgreSQL sets too. Only ``set`` is for other threads than that of the connection.

    Each notification is passed on to ``polls``.
    """

    def __init__(self, using: str, polls: PollSchedule) -> None:
        self._using = using
        self._polls = polls
        self._is_set = False
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
            weakref.finalize(self, os.close, end)  # when no other thread can set it any more
        self._heard: Any = None
        self._deaf: Any = None

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            with suppress(BlockingIOError):
                os.write(self._writing, b"\0")

    def clear(self) -> None:
        self._is_set = False
        with suppress(BlockingIOError):
            os.read(self._reading, 4096)

    def wait(self, timeout: float) -> None:
        """Return when it is set, when the database notifies, or after so long."""
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
        """Return the driver's connection, listening; None if it cannot be listened on."""
        connection = connections[self._using].connection
        if connection is None or connection is self._deaf or connection.closed:
            return None
        if connection is not self._heard:
            try:
                connection.execute(f"LISTEN {CHANNEL}")
            except connection.Error:
                self._deaf = connection  # whoever asks it next finds out why
                return None
            connection.add_notify_handler(self._on_notice)
            self._heard = connection
            self._polls.is_listening = True
            # For commits before this, one of which may have announced that no notifications follow.
            self._polls.notified((), more_follow=True)
            self._is_set = True
        return connection

    def _on_notice(self, notice: Any) -> None:
        """Take a notification that comes with the answer to a query."""
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
