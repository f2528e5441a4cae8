"""Incremental reader of a response, with a limit on its size. The data is not trusted."""

from __future__ import annotations

import re

from ..reasons import ReasonText
from . import errors
from .base import PIECE_BYTES, RECEIVED_KEPT, RESPONSE_KEPT, RESPONSE_READ_LIMIT, Response, TransportError
from .header import HEADER_LINE, HeaderReader

STATUSES_WITHOUT_BODY = (101, 204, 304)
MAX_CHUNK_LINE_BYTES = 4096
BLANK_LINES = (b"\r\n", b"\n")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")

_SIZE, _END, _TRAILER = range(3)


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


class ChunkReader:
    """Decode a chunked body (RFC 9112, section 7.1) in pieces of any size.

    ``is_over`` is true at the end of the body: after its final blank line, or after invalid data. ``broken`` is then
    the description of the error. ``rest`` is the data after the final blank line.
    """

    __slots__ = ("_awaited", "_left", "_line", "broken", "is_over", "rest")

    def __init__(self) -> None:
        self.is_over = False
        self.broken = ""
        self.rest = b""
        self._awaited = _SIZE
        self._line = b""
        self._left = 0

    @property
    def is_whole(self) -> bool:
        """Whether the body is complete and no data follows it."""
        return self.is_over and not self.broken and not self.rest

    def feed(self, data: bytes) -> bytes:
        """Return the decoded content of the next piece."""
        content = bytearray()
        position = 0
        while position < len(data) and not self.is_over:
            if self._left:
                end = min(position + self._left, len(data))
                content += data[position:end]
                self._left -= end - position
            else:
                end = data.find(b"\n", position) + 1 or len(data)
                self._take_part_of_line(data[position:end])
            position = end
        self.rest += data[position:]
        return bytes(content)

    def _take_part_of_line(self, part: bytes) -> None:
        self._line += part
        if len(self._line) > MAX_CHUNK_LINE_BYTES:
            self._break("chunk_line_too_long")
        elif self._line[-1:] == b"\n":
            line, self._line = self._line, b""
            self._take_line(line)

    def _take_line(self, line: bytes) -> None:
        is_blank = line in BLANK_LINES
        if self._awaited == _SIZE:
            self._take_size(line)
        elif self._awaited == _TRAILER:
            self.is_over = is_blank
            if not is_blank and HEADER_LINE.fullmatch(line) is None:
                self._break("trailer_invalid")
        elif is_blank:
            self._awaited = _SIZE
        else:
            self._break("chunk_too_long")

    def _take_size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            self._break("chunk_without_size")
            return
        self._left = int(match[1], 16)
        self._awaited = _END if self._left else _TRAILER

    def _break(self, code: str) -> None:
        self.broken = ReasonText(code)
        self.is_over = True
