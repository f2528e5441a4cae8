"""Terminal output with colours, and plain output for pipes."""

from __future__ import annotations

import os
import sys
import threading
from typing import TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class Terminal:
    """Writes to a stream. ``is_live`` is True if the stream supports colours and progress lines."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self.is_live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self.has_colour = self.is_live and not os.environ.get("NO_COLOR")
        self._progress = ""
        self._lock = threading.RLock()

    def paint(self, text: str, *styles: str) -> str:
        if not (self.has_colour and styles):
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def print_line(self, text: str = "") -> None:
        """Print a line above the progress line, if there is one."""
        with self._lock:
            progress = self._progress
            self.clear_progress()
            self._write(f"{text}\n")
            self.show_progress(progress)

    def show_progress(self, text: str) -> None:
        """Show a line that the next one replaces, if the stream supports it."""
        if self.is_live and text:
            with self._lock:
                self._write(f"\r\x1b[2K{self.paint(text, 'dim')}")
                self._progress = text

    def clear_progress(self) -> None:
        with self._lock:
            if self._progress:
                self._write("\r\x1b[2K")
                self._progress = ""

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()
