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
        self._unfinished = 0

    def add(self, curl: pycurl.Curl) -> None:
        self._multi.add_handle(curl)
        self._unfinished += 1

    def run(self, until: float) -> None:
        """Do what can be done now; if there is nothing, wait for something until the given time."""
        for fd, activity in self._poller.wait(self._pause_until(until)):
            if fd == self._interrupted.fileno():
                self._interrupted.recv(4096)
            else:
                self._multi.socket_action(fd, activity)
        self._run_timer()

    def finished(self) -> Iterator[tuple[pycurl.Curl, int, str, int]]:
        """Yield the handles that are over, already removed.

        With each come libcurl's error code and message, and the socket of its connection if that is kept, or else -1.
        """
        queued = 1
        while queued:
            queued, succeeded, failed = self._multi.info_read()
            for curl, code, message in [*((curl, pycurl.E_OK, "") for curl in succeeded), *failed]:
                fd = curl.getinfo(pycurl.LASTSOCKET)  # known only as long as the handle is there
                self._multi.remove_handle(curl)
                self._unfinished -= 1
                yield curl, code, message, fd

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

    def _pause_until(self, until: float) -> float:
        if self._run_timer() < self._unfinished:  # a receiver can be so quick that nothing is left to wait for
            return 0.0
        if self._timer_at is not None:
            until = min(until, self._timer_at)
        return max(0.0, until - time.monotonic())

    def _run_timer(self) -> int:
        """Tell libcurl that its time has come, if it has; return how many transfers still run."""
        if self._timer_at is None or time.monotonic() < self._timer_at:
            return self._unfinished
        self._timer_at = None
        _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return running
