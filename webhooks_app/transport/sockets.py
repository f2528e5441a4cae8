"""Sockets that never block: those that are open, how an exchange waits for them, and the poller of an event loop."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

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

    ``epoll`` is used if it exists. Gevent removes it.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poll: Any = self._epoll or select.poll()
        self._wanted: dict[int, int] = {}
        self._registered: dict[int, int] = {}
        self._changed: set[int] = set()

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
        if self._epoll is not None:
            return [fd for fd, _ in self._epoll.poll(timeout_seconds)]
        return [fd for fd, _ in self._poll.poll(timeout_seconds * 1000)]

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()

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
