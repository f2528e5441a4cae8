"""Progress bar of long commands."""

from __future__ import annotations

from django.core.management.base import OutputWrapper

WIDTH = 30


class ProgressBar:
    """A progress bar on a terminal; prints nothing elsewhere."""

    def __init__(self, stream: OutputWrapper, *, total: int, unit: str) -> None:
        self._stream = stream
        self._total = total
        self._unit = unit
        self._done = 0
        self._shown = ""

    def advance(self, count: int = 1) -> None:
        self._done += count
        # The total may have grown since it was counted.
        share = min(1.0, self._done / max(1, self._total))
        filled = int(share * WIDTH)
        self._show(f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} of {self._total:,} {self._unit}")

    def end(self) -> None:
        if self._shown:
            self._stream.write("", str)

    def _show(self, text: str) -> None:
        if text == self._shown or not self._stream.isatty():
            return
        self._stream.write(f"\r{text}", str, ending="")
        self._stream.flush()
        self._shown = text
