"""A TCP connection to the fastest of several addresses (RFC 8305, section 5)."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Sequence

from .exhaustion import is_exhaustion
from .sockets import Sockets
from .steps import WRITE, Ready, Steps, Wait

NEXT_ADDRESS_SECONDS = 0.25
"""The delay before trying the next address as well. RFC 8305 recommends 250 ms."""


def connect_to_first(
    sockets: Sockets, addresses: Sequence[str], port: int, until: float
) -> Steps[tuple[socket.socket, str]]:
    """Return a socket connected to one of the addresses, and that address. The attempts start in order and overlap.

    No data is sent. The other connections are closed. Raise TimeoutError at ``until``, and the last OSError if all
    addresses failed.
    """
    race = _Race(sockets, addresses, port, until)
    try:
        winner = yield from race.steps()
    finally:
        race.close_losers()
    winner[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return winner


class _Race:
    def __init__(self, sockets: Sockets, addresses: Sequence[str], port: int, deadline: float) -> None:
        self._sockets = sockets
        self._waiting = deque(addresses)
        self._port = port
        self._deadline = deadline
        self._running: dict[int, tuple[socket.socket, str]] = {}
        self._error: OSError = OSError("There is no address to connect to.")

    def steps(self) -> Steps[tuple[socket.socket, str]]:
        while self._waiting or self._running:
            until = self._deadline
            if self._waiting:
                self._start(self._waiting.popleft())
                until = min(until, time.monotonic() + NEXT_ADDRESS_SECONDS) if self._waiting else until
            while self._running:
                ready = yield Wait(until, dict.fromkeys(self._running, WRITE))
                winner = self._first_of(ready)
                if winner is not None:
                    return winner
                if not ready and time.monotonic() >= until:
                    break
            if time.monotonic() >= self._deadline:
                raise TimeoutError
        raise self._error

    def close_losers(self) -> None:
        for sock, _ in self._running.values():
            self._sockets.close(sock)

    def _start(self, address: str) -> None:
        try:
            sock = self._sockets.open(socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError as error:  # for example without IPv6 in the kernel
            self._fail(error)
            return
        try:
            sock.connect((address, self._port))
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(error)
            self._sockets.close(sock)
            return
        self._running[sock.fileno()] = sock, address

    def _first_of(self, ready: Ready) -> tuple[socket.socket, str] | None:
        """Return the first connected one of the ready sockets, and close those that failed."""
        for fd in ready:
            sock, address = self._running.pop(fd)
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not number:
                return sock, address
            self._fail(OSError(number, os.strerror(number)))
            self._sockets.close(sock)
        return None

    def _fail(self, error: OSError) -> None:
        """Record the error of an address. An error on our side takes precedence over errors of receivers."""
        if not is_exhaustion(self._error):
            self._error = error
