"""Watching libcurl's sockets and our own with few system calls."""

from __future__ import annotations

import select
from contextlib import suppress
from typing import Protocol

from .libcurl import pycurl

_INTEREST = {
    pycurl.POLL_IN: select.POLLIN,
    pycurl.POLL_OUT: select.POLLOUT,
    pycurl.POLL_INOUT: select.POLLIN | select.POLLOUT,
}


class _Poll(Protocol):
    def register(self, fd: int, eventmask: int = ..., /) -> None: ...
    def modify(self, fd: int, eventmask: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...


class SocketPoller:
    """Record the watched sockets, and pass only changes to the operating system.

    libcurl unregisters a socket as soon as its connection is open. ``Multi`` registers it again before the next wait,
    so no system call is necessary.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poll: _Poll = self._epoll or select.poll()
        self._wanted: dict[int, int] = {}
        self._registered: dict[int, int] = {}
        self._changed: set[int] = set()
        self._doubtful = False

    def watch(self, what: int, fd: int, *_: object) -> None:
        """Watch a socket for an event of libcurl's ``M_SOCKETFUNCTION``.

        A socket without interest is not registered, because the system would still report its errors, endlessly.
        """
        if what in _INTEREST:
            self._wanted[fd] = _INTEREST[what]
        else:  # POLL_NONE or POLL_REMOVE
            self._wanted.pop(fd, None)
        self._changed.add(fd)

    def socket_opened(self) -> None:
        """Record that a new socket may have the number of a closed one, which the system no longer watches."""
        self._doubtful = True

    def wait(self, timeout_seconds: float) -> list[tuple[int, int]]:
        """Return the ready sockets with their events, as libcurl's ``CSELECT`` flags."""
        self._apply_changes()
        if self._epoll is not None:
            events = self._epoll.poll(timeout_seconds)
        else:
            events = self._poll.poll(timeout_seconds * 1000)  # type: ignore[attr-defined]
        return [(fd, _activity(event)) for fd, event in events]

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()

    def _apply_changes(self) -> None:
        for fd in self._changed:
            interest = self._wanted.get(fd)
            known = self._registered.get(fd)
            if interest is None:
                self._forget(fd)
            elif interest != known or self._doubtful:
                self._register(fd, interest)
        self._changed.clear()
        self._doubtful = False

    def _register(self, fd: int, interest: int) -> None:
        try:
            if fd in self._registered:
                self._poll.modify(fd, interest)
            else:
                self._poll.register(fd, interest)
        except FileNotFoundError:  # another socket had this number, and was closed
            self._poll.register(fd, interest)
        self._registered[fd] = interest

    def _forget(self, fd: int) -> None:
        if self._registered.pop(fd, None) is not None:
            with suppress(OSError, KeyError):  # closed already
                self._poll.unregister(fd)


def _activity(event: int) -> int:
    activity = 0
    if event & select.POLLIN:
        activity |= pycurl.CSELECT_IN
    if event & select.POLLOUT:
        activity |= pycurl.CSELECT_OUT
    if event & ~(select.POLLIN | select.POLLOUT):
        activity |= pycurl.CSELECT_ERR
    return activity
