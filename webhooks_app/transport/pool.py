"""Idle connections for reuse: few, briefly, and each for its own host only."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Generic, Protocol, TypeVar

from .options import IDLE_CONNECTION_SECONDS
from .refused_addresses import Address

DISTRUST_SECONDS = 60.0
MAX_DISTRUSTED = 10_000


class KeptConnection(Protocol):
    """The interface of a pooled connection."""

    origin: str
    address: str
    """The address of the receiver, even behind a proxy."""
    used_at: float

    def is_silent(self) -> bool:
        """Return True if nothing has arrived since the last response, not even the end of the connection."""

    def close(self) -> None: ...


C = TypeVar("C", bound=KeptConnection)


class ConnectionPool(Generic[C]):
    """At most ``limit`` idle connections. The most recently used connection to a host is reused first. Thread-safe.

    After a failure on a reused connection, no connection to its origin is kept for ``DISTRUST_SECONDS``.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._by_origin: dict[str, list[C]] = {}
        self._by_age: dict[C, None] = {}
        self._distrusted: dict[str, float] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._by_age)

    def take(self, origin: str, addresses: Collection[Address]) -> C | None:
        """Return a connection to one of the addresses, or None. Close the unusable ones."""
        while (connection := self._pop(origin)) is not None:
            if _may_serve(connection, addresses):
                return connection
            connection.close()
        return None

    def keep(self, connection: C) -> None:
        """Add a connection, and close those that are idle for too long or exceed the limit."""
        with self._lock:
            is_refused = self._closed or self._is_distrusted(connection.origin)
            dropped = [connection] if is_refused else self._superfluous()
            if not is_refused:
                self._by_age[connection] = None
                self._by_origin.setdefault(connection.origin, []).append(connection)
        _close(dropped)

    def distrust(self, origin: str) -> None:
        """Close the connections to an origin with a failure, and keep none for a while."""
        with self._lock:
            self._distrusted.pop(origin, None)
            if len(self._distrusted) >= MAX_DISTRUSTED:
                del self._distrusted[next(iter(self._distrusted))]
            self._distrusted[origin] = time.monotonic() + DISTRUST_SECONDS
            dropped = list(self._by_origin.get(origin, ()))
            for connection in dropped:
                self._forget(connection)
        _close(dropped)

    def drop(self, connection: C) -> None:
        """Close a connection if it is idle."""
        with self._lock:
            is_idle = connection in self._by_age
            if is_idle:
                self._forget(connection)
        if is_idle:
            connection.close()

    def drop_oldest(self) -> None:
        """Close the connection with the longest idle time, if there is one."""
        with self._lock:
            oldest = next(iter(self._by_age), None)
            if oldest is not None:
                self._forget(oldest)
        if oldest is not None:
            oldest.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            dropped = list(self._by_age)
            self._by_age.clear()
            self._by_origin.clear()
        _close(dropped)

    def _pop(self, origin: str) -> C | None:
        with self._lock:
            if origin not in self._by_origin:
                return None
            connection = self._by_origin[origin][-1]
            self._forget(connection)
            return connection

    def _is_distrusted(self, origin: str) -> bool:
        until = self._distrusted.get(origin)
        if until is None:
            return False
        if time.monotonic() < until:
            return True
        del self._distrusted[origin]
        return False

    def _superfluous(self) -> list[C]:
        too_old = time.monotonic() - IDLE_CONNECTION_SECONDS
        dropped = []
        while self._by_age:
            oldest = next(iter(self._by_age))
            if oldest.used_at > too_old and len(self._by_age) < self._limit:
                break
            self._forget(oldest)
            dropped.append(oldest)
        return dropped

    def _forget(self, connection: C) -> None:
        del self._by_age[connection]
        same = self._by_origin[connection.origin]
        same.remove(connection)
        if not same:
            del self._by_origin[connection.origin]


def _may_serve(connection: KeptConnection, addresses: Collection[Address]) -> bool:
    is_recent = time.monotonic() - connection.used_at < IDLE_CONNECTION_SECONDS
    leads_there = any(connection.address == str(address) for address in addresses)
    return is_recent and leads_there and connection.is_silent()


def _close(connections: Collection[KeptConnection]) -> None:
    for connection in connections:
        connection.close()
