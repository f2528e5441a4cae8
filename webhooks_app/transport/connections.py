"""Connections to receivers: sockets that never block, the wait of an exchange for them, and the pool of idle ones."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .refused_addresses import Address
from .resolver import LookupAnswer

T = TypeVar("T")

READ, WRITE = select.POLLIN, select.POLLOUT

WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

NO_SOCKETS: Mapping[int, int] = MappingProxyType({})


class Wait(NamedTuple):
    """A wait until one of the sockets is ready or the name is resolved, but at most ``until``.

    With 0.0 there is more to do at once, after the turn of others.
    """

    until: float
    sockets: Mapping[int, int] = NO_SOCKETS
    """``READ`` and ``WRITE`` by file descriptor."""
    answer: LookupAnswer | None = None


Ready: TypeAlias = Collection[int]
"""The file descriptors that ended a wait."""

Steps: TypeAlias = Generator[Wait, Ready, T]
"""An exchange in progress: a generator of waits, which an event loop or a thread continues when one has ended."""


def _ignore(_fd: int) -> None:
    pass


class Sockets:
    """The sockets of connections that are open or being opened. Thread-safe."""

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        self.on_close: Callable[[int], None] = _ignore
        """Called with the file descriptor of each socket before it closes."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, family: int) -> socket.socket:
        """Return a new socket that does not block. Raise OSError if there is none."""
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        self._open.add(sock)
        return sock

    def replace(self, old: socket.socket, new: socket.socket) -> None:
        """Record that another object now owns the file descriptor."""
        self._open.discard(old)
        self._open.add(new)

    def close(self, sock: socket.socket) -> None:
        self._open.discard(sock)
        if (fd := sock.fileno()) >= 0:
            self.on_close(fd)
        sock.close()

    def shut_down(self) -> None:
        """End all connections, which another thread may be waiting for."""
        for sock in list(self._open):
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # SSLSocket.shutdown() could block
            except OSError:
                continue

    def close_inherited(self) -> None:
        """Close the file descriptors in a forked process. Nothing is sent, and the parent's connections continue."""
        for sock in list(self._open):
            sock.close()
        self._open.clear()


class SocketPoller:
    """Record the watched sockets, and pass only changes to the operating system.

    ``epoll`` is used if it exists. Gevent removes it. Only ``interrupt`` may be called from other threads.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poll: Any = self._epoll or select.poll()
        self._wanted: dict[int, int] = {}
        self._registered: dict[int, int] = {}
        self._changed: set[int] = set()
        self._interrupting, self._interrupted = socket.socketpair()
        self._interrupting.setblocking(False)
        self._interrupted.setblocking(False)
        self.watch(self._interrupted.fileno(), select.POLLIN)

    def interrupt(self) -> None:
        """End the current ``wait``, or the next one, at once."""
        with suppress(OSError):  # full: the signal is pending. Closed: nobody waits
            self._interrupting.send(b"\0")

    def watch(self, fd: int, events: int) -> None:
        """Watch a socket for ``select.POLLIN`` and ``select.POLLOUT``.

        A socket without events is not registered, because the system would still report its errors, endlessly.
        """
        if self._wanted.get(fd, 0) == events:
            return
        if events:
            self._wanted[fd] = events
        else:
            del self._wanted[fd]
        self._changed.add(fd)

    def forget(self, fd: int) -> None:
        """Stop watching a socket that closes. Its number may be used again."""
        self._wanted.pop(fd, None)
        self._changed.discard(fd)
        if self._registered.pop(fd, None) is not None and self._epoll is None:
            self._poll.unregister(fd)  # epoll notices it

    def wait(self, timeout_seconds: float) -> list[int]:
        """Return the ready sockets."""
        for fd in self._changed:
            self._apply(fd)
        self._changed.clear()
        found = self._poll.poll(timeout_seconds if self._epoll is not None else timeout_seconds * 1000)
        ready = [fd for fd, _ in found]
        if self._interrupted.fileno() in ready:
            ready.remove(self._interrupted.fileno())
            with suppress(BlockingIOError):
                self._interrupted.recv(4096)
        return ready

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()
        self._interrupting.close()
        self._interrupted.close()

    def _apply(self, fd: int) -> None:
        wanted, known = self._wanted.get(fd), self._registered.get(fd)
        if wanted == known:
            return
        if wanted is None:
            del self._registered[fd]
            with suppress(OSError, KeyError):
                self._poll.unregister(fd)
            return
        if known is None:
            self._poll.register(fd, wanted)
        else:
            self._poll.modify(fd, wanted)
        self._registered[fd] = wanted


IDLE_CONNECTION_SECONDS = 2
"""Shorter than the keep-alive time of common servers, so that few requests find a connection closing."""

DISTRUST_SECONDS = 60.0
MAX_DISTRUSTED = 10_000


class Connection:
    """A connection to the receiver at ``address``, even behind a proxy, for requests to ``origin``. It never blocks."""

    __slots__ = ("_sockets", "address", "fd", "origin", "peer", "requests", "sock", "used_at", "verified_at")

    def __init__(
        self,
        sock: socket.socket,
        sockets: Sockets,
        *,
        origin: str,
        address: Address,
        peer: str,
        verified_at: float | None = None,
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.origin = origin
        self.address = address
        self.peer = peer
        """The other end of the connection, unless it is a proxy."""
        self.verified_at = verified_at
        """The time when the certificate was verified, with TLS."""
        self.requests = 0
        """The number of requests sent on the connection."""
        self.used_at = time.monotonic()
        self._sockets = sockets

    @property
    def session(self) -> ssl.SSLSession | None:
        """The TLS session, once the receiver has allowed its resumption."""
        if isinstance(self.sock, ssl.SSLSocket) and (session := self.sock.session) and session.has_ticket:
            return session
        return None

    def send(self, data: memoryview) -> int:
        """Return the number of bytes sent, 0 if the socket isn't ready. Raise OSError on failure."""
        try:
            return self.sock.send(data)
        except WOULD_BLOCK:
            return 0

    def receive(self, size: int) -> bytes | None:
        """Return the available bytes, None without any, or b"" at the end. Raise OSError on failure."""
        try:
            data = self.sock.recv(size)
        except WOULD_BLOCK:
            return None
        self.used_at = time.monotonic()
        return data

    def is_silent(self) -> bool:
        """Return True if nothing has arrived since the last response, not even the end of the connection."""
        try:
            self.sock.recv(1)  # TLS messages such as session tickets are not data
        except WOULD_BLOCK:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        self.fd = -1
        self._sockets.close(self.sock)


class ConnectionPool:
    """At most ``limit`` idle connections, each for its own host only, for a short time. Thread-safe.

    The most recently used connection to a host is reused first. After a failure on a reused connection, no connection
    to its origin is kept for ``DISTRUST_SECONDS``.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._by_origin: dict[str, dict[Connection, None]] = {}
        self._by_age: dict[Connection, None] = {}
        self._distrusted: dict[str, float] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._by_age)

    def take(self, origin: str, addresses: Collection[Address]) -> Connection | None:
        """Return a connection to one of the addresses, or None. Close the unusable ones."""
        while (connection := self._pop(origin)) is not None:
            if _may_serve(connection, addresses):
                return connection
            connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        """Add a connection, and close those that are idle for too long or exceed the limit."""
        with self._lock:
            is_refused = self._closed or self._is_distrusted(connection.origin)
            dropped = [connection] if is_refused else self._superfluous()
            if not is_refused:
                self._by_age[connection] = None
                self._by_origin.setdefault(connection.origin, {})[connection] = None
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

    def drop(self, connection: Connection) -> None:
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

    def _pop(self, origin: str) -> Connection | None:
        with self._lock:
            if origin not in self._by_origin:
                return None
            connection = next(reversed(self._by_origin[origin]))
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
        del same[connection]
        if not same:
            del self._by_origin[connection.origin]


def _may_serve(connection: Connection, addresses: Collection[Address]) -> bool:
    is_recent = time.monotonic() - connection.used_at < IDLE_CONNECTION_SECONDS
    return is_recent and connection.address in addresses and connection.is_silent()


def _close(connections: Collection[Connection]) -> None:
    for connection in connections:
        connection.close()
