"""Following a response's header line by line: is it complete, and what did it say?"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from .framing import Framing, read_framing

MAX_HEADER_BYTES = 64 * 1024
MAX_HEADER_LINES = 100
CACHED_HEADER_BYTES = 2048

BLANK_LINES = (b"\r\n", b"\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\0\r\n]*)?\r?\n")

Headers = tuple[tuple[str, str], ...]


class HeaderReader:
    """Reads the interim (1xx) header blocks and the final one of a response.

    ``status`` is that of the final block's status line, 0 until one came. ``complete`` is true when the blank line
    after it came too: from then on the receiver's answer cannot change any more. ``problem`` says what broke the
    rules of HTTP, for the webhook's owner. ``stalled`` is true when so many interim blocks came that no more are read.
    """

    __slots__ = ("_had_interim", "_known", "_lines", "_size", "complete", "problem", "stalled", "status")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again, for another response."""
        self._known: _Parsed | None = None
        self._lines: list[bytes] = []
        self._size = 0
        self._had_interim = False
        self.status = 0
        self.complete = False
        self.stalled = False
        self.problem = ""

    def feed(self, line: bytes) -> bool:
        """Take one line with its line end; return False where the next one should not be read."""
        if self.complete:
            return True  # a trailer after the body, which nobody asked for
        lines = self._lines
        self._size += len(line)
        if self._size > MAX_HEADER_BYTES or len(lines) > MAX_HEADER_LINES:
            return self._refuse_size()
        if not lines:
            return self._begin_block(line)
        if len(line) <= 2 and line in BLANK_LINES:
            return self._end_block()
        lines.append(line)
        return True

    @property
    def keeps_connection(self) -> bool:
        """Whether the receiver says that its connection stays open, and leaves no doubt where the body ends."""
        framing = self.framing
        # HTTP/1.0 knows no chunks, so that something between may have passed them on without knowing.
        is_doubtful = framing.is_doubtful or (framing.is_chunked and self._lines[0].startswith(b"HTTP/1.0"))
        return framing.keeps_connection and self.status != 101 and not is_doubtful

    @property
    def framing(self) -> Framing:
        """Where the final block says that the body ends."""
        return self._parsed().framing

    @property
    def headers(self) -> Headers:
        """The final block's header lines, decoded so that every byte is kept."""
        return self._parsed().headers

    def _parsed(self) -> _Parsed:
        if self._known is not None:
            return self._known
        # A receiver under load answers with the same header many times a second.
        lines = tuple(self._lines[1:])
        parsed = _parse_cached(lines) if self._size <= CACHED_HEADER_BYTES else _parse(lines)
        if self.complete:
            self._known = parsed
        return parsed

    def _begin_block(self, line: bytes) -> bool:
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            self.problem = "The receiver's answer does not begin with an HTTP/1.1 status line."
            return False
        status = int(match[1])
        # Nothing follows a 101 that could be read as HTTP, so it is as final as any status from 200 on.
        self.status = status if status >= 200 or status == 101 else 0
        self._lines.append(line)
        return True

    def _end_block(self) -> bool:
        self.complete = self.status != 0
        if not self.complete:
            self._lines.clear()
            self._had_interim = True
        return self.status != 101

    def _refuse_size(self) -> bool:
        # An endless row of interim blocks is a receiver that does not answer, not one that answers wrongly.
        self.stalled = self._had_interim and self.status == 0
        if not self.stalled:
            self.problem = (
                f"The receiver's header is too large: more than {MAX_HEADER_LINES} lines"
                f" or {MAX_HEADER_BYTES // 1024} KiB."
            )
        return False


class _Parsed(NamedTuple):
    headers: Headers
    framing: Framing


def _parse(lines: tuple[bytes, ...]) -> _Parsed:
    pairs: list[tuple[str, str]] = []
    for line in lines:
        text = line.decode("latin-1")
        name, colon, value = text.partition(":")
        if text[0] in " \t" and pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {text.strip()}".strip())
        elif colon:
            pairs.append((name.strip(), value.strip()))
    return _Parsed(tuple(pairs), read_framing(lines))


_parse_cached = lru_cache(maxsize=256)(_parse)
