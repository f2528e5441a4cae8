"""Reading a response from any transport, with a bound on its size and without trust in it."""

from __future__ import annotations

from . import errors
from .base import PIECE_BYTES, RECEIVED_KEPT, RESPONSE_KEPT, RESPONSE_READ_LIMIT, Response, TransportError
from .chunks import ChunkReader
from .header import HeaderReader

STATUSES_WITHOUT_BODY = (101, 204, 304)


class AnswerReader:
    """Reads one response in pieces of any size: its header, then at most ``RESPONSE_READ_LIMIT`` bytes of its body.

    ``is_over`` is true when nothing more is to be read, whether the response came to its end or broke a rule.
    ``kept`` bytes of the body are kept.
    """

    __slots__ = ("_body", "_body_bytes", "_chunks", "_is_whole", "_kept", "_left", "header", "is_over")

    def __init__(self, kept: int = RESPONSE_KEPT) -> None:
        self.header = HeaderReader()
        self.is_over = False
        self._kept = kept
        self._body = b""
        self._body_bytes = 0
        self._chunks: ChunkReader | None = None
        self._left: int | None = None
        self._is_whole = False

    @property
    def wanted(self) -> int:
        """The number of bytes to read next, at most."""
        return min(PIECE_BYTES, RESPONSE_READ_LIMIT - self._body_bytes)

    @property
    def is_stalled(self) -> bool:
        """Whether nothing more is to be read, although the response may still become complete."""
        return self.header.stalled

    @property
    def leaves_connection(self) -> bool:
        """Whether the connection can serve another request: all was in order, and nothing came behind the body."""
        return self._is_whole and self.header.keeps_connection

    @property
    def response(self) -> Response | None:
        """The response once its header is complete: only that decides."""
        if not self.header.complete:
            return None
        return Response(status=self.header.status, headers=self.header.headers, body=self._body)

    @property
    def problem(self) -> TransportError | None:
        """The violated rule of HTTP, if there is one."""
        return errors.invalid_response(self.header.problem) if self.header.problem else None

    @property
    def received(self) -> bytes:
        """The first bytes of an answer that is no response."""
        return self.header.unfinished[:RECEIVED_KEPT]

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self.header.complete:
            self._feed_body(data)
            return
        self.header.feed(data)
        if self.header.problem:
            self.is_over = True
        elif self.header.complete:
            self._begin_body()

    def _begin_body(self) -> None:
        framing = self.header.framing
        if self.header.status in STATUSES_WITHOUT_BODY:
            self._left = 0
        elif framing.is_chunked:
            self._chunks = ChunkReader()
        else:
            self._left = framing.length
        self._feed_body(self.header.rest)

    def _feed_body(self, data: bytes) -> None:
        self._body_bytes += len(data)
        content = data
        if self._chunks is not None:
            content = self._chunks.feed(data)
            self.is_over, self._is_whole = self._chunks.is_over, self._chunks.is_whole
        elif self._left is not None:
            content = data[: self._left]
            self._left -= len(content)
            self.is_over = not self._left
            self._is_whole = self.is_over and len(content) == len(data)
        if self._body_bytes >= RESPONSE_READ_LIMIT:
            self.is_over = True
        if len(self._body) < self._kept:
            self._body += content[: self._kept - len(self._body)]
