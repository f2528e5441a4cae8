"""libcurl's multi interface as one object to run: its sockets, its timer and a way to interrupt the waiting."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pycurl

from .poller import SocketPoller


class Multi:
    """Transfers side by side, driven by the sockets and the time that libcurl names (``socket_action``)."""

    def __init__(self, *, kept_connections: int) -> None:
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
        self._multi.setopt(pycurl.M_MAXCONNECTS, kept_connections)
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)
        self.add = self._multi.add_handle
        self.remove = self._multi.remove_handle

    def run(self, until: float) -> None:
        """Do what can be done now; if there is nothing, wait for something until the given time."""
        self._run_timer()
        if self._timer_at is not None:
            until = min(until, self._timer_at)
        for fd, activity in self._poller.wait(max(0.0, until - time.monotonic())):
            if fd == self._interrupted.fileno():
                self._interrupted.recv(4096)
            else:
                self._multi.socket_action(fd, activity)
        self._run_timer()

    def finished(self) -> Iterator[tuple[pycurl.Curl, int, str]]:
        """Yield the handles that are over, already removed, each with libcurl's error code and message."""
        queued = 1
        while queued:
            queued, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self.remove(curl)
                yield curl, pycurl.E_OK, ""
            for curl, code, message in failed:
                self.remove(curl)
                yield curl, code, message

    def interrupt(self) -> None:
        """End a ``run`` that is waiting. Thread-safe."""
        with suppress(OSError):  # full: it is on its way; closed: nobody waits
            self._interrupting.send(b"\0")

    def close(self) -> None:
        """Drop all transfers and connections."""
        self._multi.close()
        self._poller.close()
        self._interrupting.close()
        self._interrupted.close()

    def _set_timer(self, milliseconds: int) -> None:
        self._timer_at = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _run_timer(self) -> None:
        if self._timer_at is not None and time.monotonic() >= self._timer_at:
            self._timer_at = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
