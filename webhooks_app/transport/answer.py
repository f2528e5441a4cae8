"""Incremental reader of a response, with a limit on its size. The data is not trusted."""

from __future__ import annotations

from . import errors
from .base import PIECE_BYTES, RECEIVED_KEPT, RESPONSE_KEPT, RESPONSE_READ_LIMIT, Response, TransportError
from .chunks import ChunkReader
from .header import HeaderReader

STATUSES_WITHOUT_BODY = (101, 204, 304)


class AnswerReader:
    """Read one response in pieces of any size: its header, then at most ``RESPONSE_READ_LIMIT`` bytes of its body.

    ``is_over`` is true once reading must stop: the response is complete, violates HTTP or exceeds the limit.
    Only the first ``kept`` bytes of the body are stored.
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
        """The maximum number of bytes to read next."""
        return min(PIECE_BYTES, RESPONSE_READ_LIMIT - self._body_bytes)

    @property
    def is_stalled(self) -> bool:
        """Whether the reader no longer reads, although the response is not complete."""
        return self.header.stalled

    @property
    def leaves_connection(self) -> bool:
        """Whether the connection is reusable: the response is valid and complete, and no data follows its body."""
        return self._is_whole and self.header.keeps_connection

    @property
    def response(self) -> Response | None:
        """The response, or None until its header is complete. The header alone decides about success."""
        if not self.header.complete:
            return None
        return Response(self.header.status, self.header.headers, self._body, self._body_problem)

    @property
    def problem(self) -> TransportError | None:
        """The violation of HTTP, if there is one."""
        return errors.invalid_response(self.header.problem) if self.header.problem else None

    @property
    def received(self) -> bytes:
        """The first bytes of an answer without a complete header."""
        return self.header.unfinished[:RECEIVED_KEPT]

    def feed(self, data: bytes) -> None:
        """Process the next bytes."""
        if self.header.complete:
            self._feed_body(data)
            return
        self.header.feed(data)
        if self.header.problem:
            self.is_over = True
        elif self.header.complete:
            self._begin_body()

    @property
    def _body_problem(self) -> str:
        if self._is_whole:
            return ""
        if self._body_bytes >= RESPONSE_READ_LIMIT:
            return errors.BODY_TOO_LONG
        if self._chunks is not None:
            return self._chunks.broken or ("" if self._chunks.is_over else errors.BODY_TOO_SHORT)
        return errors.BODY_TOO_SHORT if self._left else ""

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
