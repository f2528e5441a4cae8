"""A blocking connection to a receiver and its response, both bounded in time."""

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
"""Allowed delay of a socket's timeout. Avoids setting the timeout before every call."""


class Connection:
    """An open connection, TLS included, to the receiver at ``address``, for requests to ``origin``."""

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
        # On a TLS socket the timeout applies to each call, hence the small pieces.
        for start in range(0, len(data), PIECE_BYTES):
            self._bound(attempt.seconds_left())
            self.sock.sendall(data[start : start + PIECE_BYTES] if len(data) > PIECE_BYTES else data)

    def receive(self, size: int, attempt: Attempt) -> bytes:
        """Return the next bytes, at most ``size``, or b"" at the end. Raise OSError on failure."""
        try:
            self._bound(attempt.seconds_left())
        except TimeoutError:
            if not self._readable.poll(0):
                raise
            self._bound(attempt.grace_seconds_left())  # the data arrived in time
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
    """The response on a connection, parsed by the attempt's reader.

    A reusable connection is passed to ``release``. Any other is closed.
    """

    def __init__(self, connection: Connection, attempt: Attempt, release: Callable[[Connection], None]) -> None:
        self._connection = connection
        self._attempt = attempt
        self._reader = attempt.reader
        self._release = release
        self.is_doubtful = False
        """Whether the connection must not be reused because the request was not sent completely."""

    def read_header(self) -> None:
        """Read to the end of the final header block. Raise OSError if there is none."""
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
        """Read the body up to the limit. Raise OSError if the connection fails."""
        while not self._reader.is_over and (data := self._receive()):
            self._reader.feed(data)

    def close(self) -> None:
        """Release or close the connection. The response may be incomplete."""
        if self._reader.leaves_connection and not self.is_doubtful:
            self._release(self._connection)
        else:
            self._connection.close()

    def _receive(self) -> bytes:
        data = self._connection.receive(self._reader.wanted, self._attempt)
        self._attempt.timings.setdefault("first_byte", self._attempt.duration_seconds)
        return data
