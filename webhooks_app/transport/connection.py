"""A connection to a receiver in a thread, and the response on it, both bounded in time."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

from .base import PIECE_BYTES
from .wire_request import Attempt

IMPRECISION_SECONDS = 0.05
"""By how much a socket's timeout may be late, so that it need not be set before each call."""


class Connection:
    """An open connection, TLS included, to the receiver of ``origin`` at ``address``."""

    def __init__(self, sock: socket.socket, *, origin: str, address: str, peer: str) -> None:
        self.sock = sock
        self.origin = origin
        self.address = address
        self.peer = peer
        self.used_at = 0.0
        self._timeout_seconds = 0.0
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)

    def send(self, data: bytes, attempt: Attempt) -> None:
        # In pieces, because a timeout bounds each call on a TLS socket and not their sum.
        for start in range(0, len(data), PIECE_BYTES):
            self._bound(attempt.seconds_left())
            self.sock.sendall(data[start : start + PIECE_BYTES] if len(data) > PIECE_BYTES else data)

    def receive(self, size: int, attempt: Attempt) -> bytes:
        """Return the next bytes, at most ``size``, or nothing at the end. Raises OSError."""
        try:
            self._bound(attempt.seconds_left())
        except TimeoutError:
            if not self._readable.poll(0):
                raise
            self._bound(attempt.grace_seconds_left())  # it arrived in time, and was not read before
        data = self.sock.recv(size)
        self.used_at = time.monotonic()
        return data

    def is_silent(self) -> bool:
        has_decrypted = isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()
        return not has_decrypted and not self._readable.poll(0)

    def close(self) -> None:
        self.sock.close()

    def _bound(self, seconds: float) -> None:
        if not seconds <= self._timeout_seconds <= seconds + IMPRECISION_SECONDS:
            self._timeout_seconds = seconds
            self.sock.settimeout(seconds)


class Answer:
    """The response on a connection, read by the attempt's reader.

    ``release`` gets the connection back if it can serve another request; otherwise the connection is closed.
    """

    def __init__(self, connection: Connection, attempt: Attempt, release: Callable[[Connection], None]) -> None:
        self._connection = connection
        self._attempt = attempt
        self._reader = attempt.reader
        self._release = release
        self.is_doubtful = False
        """Whether the connection may serve no other request, because this one was not sent completely."""

    def read_header(self) -> None:
        """Read up to the blank line after the final header block. Raises OSError if it never comes."""
        while not self._reader.header.complete:
            data = self._receive()
            if not data:
                raise self._attempt.lost()
            self._reader.feed(data)
            if self._reader.problem is not None:
                raise self._attempt.fail(self._reader.problem)
            if self._reader.is_stalled:
                with suppress(TimeoutError):
                    time.sleep(self._attempt.seconds_left())
                raise TimeoutError
        self._attempt.begin_body()

    def read_body(self) -> None:
        """Read the body as far as it is kept. Raises OSError where it breaks off."""
        while not self._reader.is_over and (data := self._receive()):
            self._reader.feed(data)

    def close(self) -> None:
        """Release or close the connection, whether the response was read to its end or not."""
        if self._reader.leaves_connection and not self.is_doubtful:
            self._release(self._connection)
        else:
            self._connection.close()

    def _receive(self) -> bytes:
        data = self._connection.receive(self._reader.wanted, self._attempt)
        self._attempt.timings.setdefault("first_byte", self._attempt.duration_seconds)
        return data
