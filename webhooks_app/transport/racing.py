"""A TCP connection to the fastest of several addresses (RFC 8305, section 5)."""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Sequence

from .exhaustion import is_exhaustion

NEXT_ADDRESS_SECONDS = 0.25
"""The delay before trying the next address as well. RFC 8305 recommends 250 ms."""


def connect_to_first(addresses: Sequence[str], port: int, seconds: float) -> socket.socket:
    """Return a blocking socket connected to one of the addresses. The attempts start in order and overlap.

    No data is sent. The other connections are closed. Raise TimeoutError at the deadline, and the last OSError if all
    addresses failed.
    """
    race = _Race(addresses, port, time.monotonic() + seconds)
    try:
        winner = race.run()
    finally:
        race.close_losers()
    winner.setblocking(True)
    winner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return winner


class _Race:
    def __init__(self, addresses: Sequence[str], port: int, deadline: float) -> None:
        self._waiting = deque(addresses)
        self._port = port
        self._deadline = deadline
        self._running: dict[int, socket.socket] = {}
        self._poll = select.poll()
        self._error: OSError = OSError("There is no address to connect to.")

    def run(self) -> socket.socket:
        while self._waiting or self._running:
            next_at = time.monotonic() + NEXT_ADDRESS_SECONDS
            if self._waiting:
                self._start(self._waiting.popleft())
            winner = self._first_until(min(next_at, self._deadline) if self._waiting else self._deadline)
            if winner is not None:
                return winner
            if time.monotonic() >= self._deadline:
                raise TimeoutError
        raise self._error

    def close_losers(self) -> None:
        for sock in self._running.values():
            sock.close()

    def _start(self, address: str) -> None:
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError as error:  # for example without IPv6 in the kernel
            self._fail(error)
            return
        sock.setblocking(False)
        try:
            sock.connect((address, self._port))
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(error)
            sock.close()
            return
        self._running[sock.fileno()] = sock
        self._poll.register(sock, select.POLLOUT)

    def _first_until(self, until: float) -> socket.socket | None:
        """Return a connected socket, or None at ``until`` or without a connection in progress."""
        while self._running:
            seconds = until - time.monotonic()
            if seconds <= 0:
                return None
            for fd, _ in self._poll.poll(seconds * 1000):
                sock = self._running.pop(fd)
                self._poll.unregister(fd)
                number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if not number:
                    return sock
                self._fail(OSError(number, os.strerror(number)))
                sock.close()
        return None

    def _fail(self, error: OSError) -> None:
        """Record the error of an address. An error on our side takes precedence over errors of receivers."""
        if not is_exhaustion(self._error):
            self._error = error
