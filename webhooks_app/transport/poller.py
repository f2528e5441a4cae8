"""Watching many sockets with few system calls."""

from __future__ import annotations

import select
from contextlib import suppress
from typing import Any


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
