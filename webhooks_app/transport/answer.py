"""Incremental reader of a response: its header with the framing, then its body, both limited in size.

The data is not trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ..reasons import ReasonText
from . import errors
from .base import PIECE_BYTES, RECEIVED_KEPT, RESPONSE_KEPT, RESPONSE_READ_LIMIT, Response, TransportError

MAX_HEADER_BYTES = 64 * 1024
MAX_HEADER_LINES = 100
"""Maximum number of header lines in a block, without the status line."""

CACHED_HEADER_BYTES = 2048

HEADER_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[^\0\r\n]*\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\0\r\n]*)?\r?\n")
_STATUS_LINE_START = re.compile(rb"HTTP/1\.[01] [1-9][0-9]{2}[ \r]")
_EXAMPLE = b"HTTP/1.1 200 "
_BLOCK_END = re.compile(rb"\n\r?\n")
_LINE = re.compile(rb"[^\n]*\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")

NO_STATUS_LINE = ReasonText("no_status_line")
TOO_LARGE = ReasonText("header_too_large", lines=MAX_HEADER_LINES, size=MAX_HEADER_BYTES // 1024)

Headers = tuple[tuple[str, str], ...]


class Framing(NamedTuple):
    """The framing of a body (RFC 9112, section 6.3). Without a length or chunks, the body ends with the connection."""

    length: int | None
    is_chunked: bool
    is_doubtful: bool
    """Whether a header line is invalid, or another parser could find a different end of the body."""
    keeps_connection: bool
    """Whether the header contains ``Connection: keep-alive``. Without it, some receivers close the connection."""


def read_framing(lines: Iterable[bytes]) -> Framing:
    """Return the framing for header lines, each with its line end."""
    values: dict[bytes, list[bytes]] = {}
    is_doubtful = False
    for line in lines:
        match = HEADER_LINE.fullmatch(line)
        if match is None:
            is_doubtful = True
        else:
            values.setdefault(match[1].lower(), []).append(line[match.end(1) + 1 :].strip(b" \t\r\n").lower())
    codings = values.get(b"transfer-encoding", [])
    lengths = values.get(b"content-length", [])
    length = int(lengths[0]) if len(lengths) == 1 and not codings and _LENGTH.fullmatch(lengths[0]) else None
    if codings:
        is_doubtful = is_doubtful or codings != [b"chunked"] or bool(lengths)
    elif lengths:
        is_doubtful = is_doubtful or length is None
    connection = _members(values.get(b"connection", []))
    return Framing(
        length=length,
        is_chunked=_members(codings)[-1:] == [b"chunked"],
        is_doubtful=is_doubtful,
        keeps_connection=b"keep-alive" in connection and b"close" not in connection,
    )


def _members(values: list[bytes]) -> list[bytes]:
    """Return the members of a list that may span several header lines."""
    return [member.strip(b" \t") for member in b",".join(values).split(b",")]


class HeaderReader:
    """Parse the interim (1xx) header blocks and the final one of a response, in pieces of any size.

    ``complete`` is true after the final block. ``status``, ``headers`` and ``framing`` describe that block, and
    ``rest`` is the data after it. ``problem`` is the violation of HTTP, worded for the owner of the webhook.
    ``stalled`` is true once the interim blocks exceed their limit. Further data is then ignored.
    """

    __slots__ = ("_buffer", "_final", "_interim_bytes", "_searched", "complete", "problem", "rest", "stalled")

    def __init__(self) -> None:
        self._buffer = b""
        self._searched = 0
        self._interim_bytes = 0
        self._final = _NOTHING
        self.rest = b""
        self.complete = False
        self.stalled = False
        self.problem = ""

    @property
    def status(self) -> int:
        return self._final.status

    @property
    def headers(self) -> Headers:
        """The header lines of the final block, decoded without loss."""
        return self._final.headers

    @property
    def framing(self) -> Framing:
        """The framing of the body according to the final block."""
        return self._final.framing

    @property
    def keeps_connection(self) -> bool:
        """Whether the receiver keeps its connection open and the end of the body is unambiguous."""
        return self._final.keeps_connection

    @property
    def unfinished(self) -> bytes:
        """The bytes of the incomplete or invalid block."""
        return self._buffer

    def feed(self, data: bytes) -> None:
        """Process the next bytes of the response."""
        self._buffer = self._buffer + data if self._buffer else data
        while not (self.complete or self.problem or self.stalled):
            end = _BLOCK_END.search(self._buffer, self._searched)
            if end is None:
                self._check_unfinished()
                self._searched = max(0, len(self._buffer) - 2)
                return
            self._take_block(end.end())

    def _take_block(self, size: int) -> None:
        block = self._buffer[:size]
        parsed = _parse_cached(block) if size <= CACHED_HEADER_BYTES else _parse(block)
        self.problem = parsed.problem
        if self.problem:
            return
        self._searched = 0
        # Data after a 101 is not HTTP, so this status is as final as any from 200.
        if parsed.status >= 200 or parsed.status == 101:
            self._final = parsed
            self.complete = True
            self.rest, self._buffer = self._buffer[size:], b""
            return
        self._buffer = self._buffer[size:]
        self._interim_bytes += size
        # Endless interim blocks count as a timeout, not as an invalid response.
        self.stalled = self._interim_bytes > MAX_HEADER_BYTES

    def _check_unfinished(self) -> None:
        """Reject an incomplete block that can no longer become valid."""
        buffer = self._buffer
        line = _LINE.match(buffer)
        if line is not None:
            is_possible = _STATUS_LINE.fullmatch(line[0]) is not None
        else:
            start = buffer[: len(_EXAMPLE)]
            is_possible = _STATUS_LINE_START.fullmatch(start + _EXAMPLE[len(start) :]) is not None
        if not is_possible:
            self.problem = NO_STATUS_LINE
        elif len(buffer) > MAX_HEADER_BYTES or buffer.count(b"\n") - 1 > MAX_HEADER_LINES:
            self.problem = TOO_LARGE


class _Block(NamedTuple):
    status: int
    headers: Headers
    framing: Framing
    keeps_connection: bool = False
    problem: str = ""


_NOTHING = _Block(0, (), read_framing(()))


def _parse(block: bytes) -> _Block:
    first, *lines, _ = _LINE.findall(block)
    match = _STATUS_LINE.fullmatch(first)
    if match is None:
        return _NOTHING._replace(problem=NO_STATUS_LINE)
    if len(lines) > MAX_HEADER_LINES or len(block) > MAX_HEADER_BYTES:
        return _NOTHING._replace(problem=TOO_LARGE)
    status, framing = int(match[1]), read_framing(lines)
    # HTTP/1.0 has no chunked coding, so an intermediary may have forwarded it without decoding.
    is_doubtful = framing.is_doubtful or (framing.is_chunked and first.startswith(b"HTTP/1.0"))
    keeps_connection = framing.keeps_connection and status != 101 and not is_doubtful
    return _Block(status, _pairs(lines), framing, keeps_connection)


# A receiver under load sends the same header many times a second.
_parse_cached = lru_cache(maxsize=256)(_parse)


def _pairs(lines: list[bytes]) -> Headers:
    pairs: list[tuple[str, str]] = []
    for line in lines:
        text = line.decode("latin-1")
        name, colon, value = text.partition(":")
        if text[0] in " \t" and pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {text.strip()}".strip())
        elif colon:
            pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


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
