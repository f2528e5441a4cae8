"""Connections between two requests: few, for a short time, and each for the host that it was opened to."""

from __future__ import annotations

import threading
import time

from .attempt import Attempt
from .connection import Connection
from .options import IDLE_CONNECTION_SECONDS


class KeptConnections:
    """At most ``limit`` connections that no attempt uses. Of those to one host, the last used is the first taken."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._by_origin: dict[str, list[Connection]] = {}
        self._by_age: dict[Connection, None] = {}
        self._closed = False

    def take(self, attempt: Attempt) -> Connection | None:
        """Return a connection on which the attempt's request may go, or None; close those that turn out useless."""
        while (connection := self._pop(attempt.endpoint.origin)) is not None:
            if connection.may_serve(attempt):
                return connection
            connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        """Take a connection back, and close what has been idle for too long or is too much."""
        with self._lock:
            dropped = [connection] if self._closed else self._superfluous()
            if not self._closed:
                self._by_age[connection] = None
                self._by_origin.setdefault(connection.origin, []).append(connection)
        for useless in dropped:
            useless.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            dropped = list(self._by_age)
            self._by_age.clear()
            self._by_origin.clear()
        for connection in dropped:
            connection.close()

    def _pop(self, origin: str) -> Connection | None:
        with self._lock:
            if origin not in self._by_origin:
                return None
            connection = self._by_origin[origin][-1]
            self._forget(connection)
            return connection

    def _superfluous(self) -> list[Connection]:
        too_old = time.monotonic() - IDLE_CONNECTION_SECONDS
        dropped = []
        while self._by_age:
            oldest = next(iter(self._by_age))
            if oldest.used_at > too_old and len(self._by_age) < self._limit:
                break
            self._forget(oldest)
            dropped.append(oldest)
        return dropped

    def _forget(self, connection: Connection) -> None:
        del self._by_age[connection]
        same = self._by_origin[connection.origin]
        same.remove(connection)
        if not same:
            del self._by_origin[connection.origin]
