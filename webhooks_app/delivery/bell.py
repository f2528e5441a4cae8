"""PostgreSQL's NOTIFY as the shortest way from a commit to an engine that sleeps.

It is no more than a hint, as the message through the broker is: nothing is lost with it. Behind a pooler that shares
connections by transaction it does not arrive, and the message does.
"""

from __future__ import annotations

import logging
import math
import os
import select
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from .statements.postgresql import uses_psycopg3

logger = logging.getLogger("webhooks_app.wakeup")

CHANNEL = "webhooks_app_due"

RING_EVERY_SECONDS = 0.1
"""How often a process rings at most. An engine that hears a ring looks once more after this time, for what was
committed meanwhile without one."""

_rang_at: dict[str, float] = {}


def ring(using: str) -> None:
    """Tell the engines that sleep that something may be due, where the database can."""
    connection = connections[using]
    now = time.monotonic()
    if connection.vendor != "postgresql" or now - _rang_at.get(using, -math.inf) < RING_EVERY_SECONDS:
        return
    _rang_at[using] = now
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
    except (DatabaseError, InterfaceError) as error:
        logger.debug("The engines did not hear of it, and wait for their message: %s", error)


class Bell:
    """A ``threading.Event`` that PostgreSQL sets too. Only ``set`` is for other threads than that of the connection.

    ``on_ring`` is called when the database says that something may be due, with the seconds after which that may be so
    again without a word.
    """

    def __init__(self, using: str, on_ring: Callable[[float], None]) -> None:
        self._using = using
        self._on_ring = on_ring
        # A connection of the driver's pool would go on listening for whoever has it next.
        self._can_listen = uses_psycopg3(using) and not connections[using].settings_dict["OPTIONS"].get("pool")
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

    def wait(self, seconds: float) -> None:
        """Return when it is set, when the database rings, or after so long."""
        connection = self._connection()
        if self._is_set:
            return
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        if connection is not None:
            poll.register(connection.fileno(), select.POLLIN)
        ready = [fd for fd, _ in poll.poll(math.ceil(1000 * seconds))]
        if connection is not None and connection.fileno() in ready:
            self._take_rings(connection)

    def _connection(self) -> Any:
        """Return the driver's connection, listening; None if there is none that can be listened on."""
        connection = connections[self._using].connection if self._can_listen else None
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
            self._on_notice()  # what was committed before was not heard
        return connection

    def _on_notice(self, _notice: object = None) -> None:
        """Take a ring that comes with the answer to a query."""
        self._is_set = True
        self._on_ring(RING_EVERY_SECONDS)

    def _take_rings(self, connection: Any) -> None:
        try:
            connection.pgconn.consume_input()
            while connection.pgconn.notifies():
                pass
        except connection.Error:
            self._deaf = connection
        self._on_ring(RING_EVERY_SECONDS)
