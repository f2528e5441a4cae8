"""Reader of a chunked body (RFC 9112, section 7.1)."""

from __future__ import annotations

import re

from ..reasons import ReasonText
from .framing import HEADER_LINE

MAX_LINE_BYTES = 4096
BLANK_LINES = (b"\r\n", b"\n")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")

_SIZE, _END, _TRAILER = range(3)


class ChunkReader:
    """Decode a chunked body in pieces of any size.

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
        if len(self._line) > MAX_LINE_BYTES:
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
