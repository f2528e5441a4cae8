"""Incremental parser of a response's header: its end, its status, its fields and the framing of the body."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ..reasons import ReasonText

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
