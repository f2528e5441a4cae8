"""A connection to a receiver, and its answer, read with a bound on time and size and without trust in either."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from . import failures
from .attempt import Attempt
from .base import RESPONSE_READ_LIMIT
from .chunks import ChunkReader
from .header import MAX_HEADER_BYTES, HeaderReader
from .options import IDLE_CONNECTION_SECONDS

PIECE_BYTES = 16 * 1024
IMPRECISION_SECONDS = 0.05
"""By how much a socket's timeout may be late, so that it need not be set before each call."""

STATUSES_WITHOUT_BODY = (101, 204, 304)


class Connection:
    """A connection that stands, TLS included. ``origin`` and ``address`` say whom it leads to."""

    def __init__(self, sock: socket.socket, *, origin: str, address: str, peer: str) -> None:
        self.sock = sock
        self.origin = origin
        self.address = address
        self.peer = peer
        self.used_at = 0.0
        self._timeout_seconds = 0.0
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)

    def may_serve(self, attempt: Attempt) -> bool:
        """Tell whether the kept connection leads where the attempt may go, and the receiver has been silent on it."""
        is_fresh = time.monotonic() - self.used_at < IDLE_CONNECTION_SECONDS
        return is_fresh and any(self.address == str(address) for address in attempt.addresses) and self._is_silent()

    def send(self, data: bytes, attempt: Attempt) -> None:
        # In pieces, because a timeout bounds each call on a TLS socket and not their sum.
        for start in range(0, len(data), PIECE_BYTES):
            self._bound(attempt.seconds_left())
            self.sock.sendall(data[start : start + PIECE_BYTES] if len(data) > PIECE_BYTES else data)

    def receive(self, size: int, attempt: Attempt) -> bytes:
        """Return what comes next, at most ``size`` bytes, or nothing at the end. Raises OSError."""
        try:
            self._bound(attempt.seconds_left())
        except TimeoutError:
            if not self._readable.poll(0):
                raise
            self._bound(attempt.grace_seconds_left())  # it came in time, and was not looked at before
        data = self.sock.recv(size)
        self.used_at = time.monotonic()
        return data

    def close(self) -> None:
        self.sock.close()

    def _is_silent(self) -> bool:
        """Whether nothing came that nobody asked for: an end, or what would pass for the next answer."""
        has_decrypted = isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()
        return not has_decrypted and not self._readable.poll(0)

    def _bound(self, seconds: float) -> None:
        if not seconds <= self._timeout_seconds <= seconds + IMPRECISION_SECONDS:
            self._timeout_seconds = seconds
            self.sock.settimeout(seconds)


class Answer:
    """What the receiver says on a connection: first its header, then at most ``RESPONSE_READ_LIMIT`` bytes.

    ``release`` gets the connection back where all was as it should be; otherwise the connection is closed.
    """

    def __init__(self, connection: Connection, attempt: Attempt, release: Callable[[Connection], None]) -> None:
        self._connection = connection
        self._attempt = attempt
        self._release = release
        self._buffer = b""
        self._is_whole = False
        self._body_bytes = 0
        self.is_doubtful = False
        """Whether the receiver broke a rule, so that nothing more may be asked on this connection."""

    def read_header(self) -> None:
        """Read up to the blank line after the final header block. Raises OSError if it never comes."""
        header = self._attempt.header
        while not header.complete:
            line = self._line()
            if not line:
                raise self._attempt.fail(failures.connection_lost())
            if not header.feed(line) and not header.complete:
                self._give_up(header)
        self._body_bytes = len(self._buffer)

    def stream(self, *_args: object, **_options: object) -> Iterator[bytes]:
        """Yield the body as it comes, put together and not decoded. Raises OSError where it breaks off."""
        framing = self._attempt.header.framing
        if self._attempt.header.status in STATUSES_WITHOUT_BODY:
            self._is_whole = True
        elif framing.is_chunked:
            yield from self._chunks()
        elif framing.length is None:
            yield from self._rest()
        else:
            yield from self._exactly(framing.length)
            self._is_whole = True

    def close(self) -> None:
        """Be done with the answer, whether it was read to its end or not."""
        is_clean = self._is_whole and not self.is_doubtful and not self._buffer
        if is_clean and self._attempt.header.keeps_connection:
            self._release(self._connection)
        else:
            self._connection.close()

    def _chunks(self) -> Iterator[bytes]:
        reader = ChunkReader()
        while not reader.is_over:
            data = self._piece()
            if not data:
                raise BrokenBodyError("The body ended early.")
            self._buffer = b""
            yield reader.feed(data)
        if reader.broken:
            raise BrokenBodyError(reader.broken)
        self._buffer = reader.rest
        self._is_whole = True

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            data = self._piece()[:size]
            if not data:
                raise BrokenBodyError("The body ended early.")
            self._buffer = self._buffer[len(data) :]
            size -= len(data)
            yield data

    def _rest(self) -> Iterator[bytes]:
        while data := self._piece():
            self._buffer = b""
            yield data

    def _piece(self) -> bytes:
        """Return what is there, having waited for it where nothing was; nothing only at the end."""
        if not self._buffer:
            self._buffer = self._receive_body()
        return self._buffer

    def _line(self) -> bytes:
        """Return a header line with its end; more than is read without one, if none came; nothing at the end."""
        while (end := self._buffer.find(b"\n") + 1) == 0:
            if len(self._buffer) > MAX_HEADER_BYTES:
                return self._buffer
            data = self._receive()
            if not data:
                return b""
            self._buffer += data
        line, self._buffer = self._buffer[:end], self._buffer[end:]
        return line

    def _receive(self) -> bytes:
        data = self._connection.receive(PIECE_BYTES, self._attempt)
        self._attempt.timings.setdefault("first_byte", self._attempt.duration_seconds)
        return data

    def _receive_body(self) -> bytes:
        size = min(PIECE_BYTES, RESPONSE_READ_LIMIT - self._body_bytes)
        if size <= 0:
            raise BrokenBodyError("The body is longer than is read.")
        data = self._connection.receive(size, self._attempt)
        self._body_bytes += len(data)
        return data

    def _give_up(self, header: HeaderReader) -> None:
        if header.stalled:
            with suppress(TimeoutError):
                time.sleep(self._attempt.seconds_left())
            raise TimeoutError
        raise self._attempt.fail(failures.invalid_response(header.problem))


class BrokenBodyError(OSError):
    """What followed a complete header cannot be read any further."""
