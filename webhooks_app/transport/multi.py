"""libcurl's multi interface as one object. It opens connections and watches the open ones."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress

from .libcurl import pycurl
from .poller import SocketPoller


class Multi:
    """Handles that open connections concurrently (``CONNECT_ONLY``), driven by their sockets and libcurl's timer.

    A handle stays in the multi object during the use of its connection, because its removal closes the connection.
    """

    def __init__(self) -> None:
        self._poller = SocketPoller()
        self.socket_opened = self._poller.socket_opened
        self._timer_at: float | None = None
        self._interrupting, self._interrupted = socket.socketpair()
        self._interrupting.setblocking(False)
        self._interrupted.setblocking(False)
        self._poller.watch(pycurl.POLL_IN, self._interrupted.fileno())
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._poller.watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)
        self._unfinished = 0
        self._watched: set[int] = set()

    def add(self, curl: pycurl.Curl) -> None:
        """Start to open the handle's connection."""
        self._multi.add_handle(curl)
        self._unfinished += 1

    def remove(self, curl: pycurl.Curl, fd: int = -1) -> None:
        """Close the handle's connection. ``fd`` is the number of its socket if ``watch`` was called for it."""
        if fd in self._watched:
            self._watched.discard(fd)
            self._poller.watch(pycurl.POLL_REMOVE, fd)
        self._multi.remove_handle(curl)

    def watch(self, fd: int, what: int = pycurl.POLL_IN) -> None:
        """Watch the socket of an open connection."""
        self._watched.add(fd)
        self._poller.watch(what, fd)

    def run(self, until: float) -> list[int]:
        """Return the watched sockets that are ready, waiting for the first until ``until`` at the latest.

        Meanwhile, connections continue to open.
        """
        ready = []
        for fd, activity in self._poller.wait(self._pause_until(until)):
            if fd in self._watched:
                ready.append(fd)
            elif fd == self._interrupted.fileno():
                self._interrupted.recv(4096)
            else:
                self._multi.socket_action(fd, activity)
        self._run_timer()
        return ready

    def finished(self) -> Iterator[tuple[pycurl.Curl, int, str]]:
        """Yield the finished handles with libcurl's error code and message. The handles are not removed."""
        queued = 1
        while queued:
            queued, succeeded, failed = self._multi.info_read()
            for curl, code, message in [*((curl, pycurl.E_OK, "") for curl in succeeded), *failed]:
                self._unfinished -= 1
                yield curl, code, message

    def interrupt(self) -> None:
        """End a ``run`` in another thread."""
        with suppress(OSError):  # full: the signal is pending. Closed: nothing runs
            self._interrupting.send(b"\0")

    def close(self) -> None:
        """Close all handles and connections."""
        self._multi.close()
        self._poller.close()
        self._interrupting.close()
        self._interrupted.close()

    def _set_timer(self, milliseconds: int) -> None:
        self._timer_at = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _pause_until(self, until: float) -> float:
        if self._run_timer() < self._unfinished:  # a connection may open at once, without an event
            return 0.0
        if self._timer_at is not None:
            until = min(until, self._timer_at)
        return max(0.0, until - time.monotonic())

    def _run_timer(self) -> int:
        """Run libcurl's timer if it has expired. Return the number of connections that are still opening."""
        if self._timer_at is None or time.monotonic() < self._timer_at:
            return self._unfinished
        self._timer_at = None
        _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return running
