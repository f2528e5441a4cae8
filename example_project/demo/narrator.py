"""Output of the demo."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from example_project.terminal import Terminal
from webhooks_app.event_types import RETRY_NOTICE
from webhooks_app.receiver.local import Received

from .cast import Player

NAME_WIDTH = 9
TYPE_WIDTH = 24
MAX_DATA_CHARACTERS = 84


class Narrator:
    """Prints a line for each action and request, with the seconds since the start."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._started = time.monotonic()
        self._chapter = 0

    def chapter(self, title: str) -> None:
        self._chapter += 1
        self._terminal.print_line()
        self._terminal.print_line(self._terminal.paint(f"{self._chapter}. {title}", "bold"))

    def action(self, text: str) -> None:
        """Print an action."""
        self._line("→", text)

    def result(self, text: str) -> None:
        """Print the result of an action."""
        self._terminal.print_line(f"{'':9}{self._terminal.paint(text, 'dim')}")

    def received(self, player: Player, received: Received) -> None:
        """Print a request and its answer. Called in the threads of the receivers."""
        paint = self._terminal.paint
        if received.problem:
            verdict = paint(f"refused: {received.problem.partition(';')[0]}", "yellow")
        else:
            verdict = paint("valid signature", "green") + self._ordinal(received)
        status = paint(str(received.status), "green" if received.status == 200 else "yellow")
        headline = f"{player.name:<{NAME_WIDTH}} {received.type:<{TYPE_WIDTH}} {verdict}, answered {status}"
        # One call, because several receivers print at the same time.
        self._line(paint("←", "cyan"), f"{headline}\n{'':21}{paint(_shortened(received), 'dim')}")

    def plain(self, text: str = "", *styles: str) -> None:
        self._terminal.print_line(self._terminal.paint(text, *styles))

    def check(self, claim: str, *, holds: bool, found: str = "") -> None:
        mark = self._terminal.paint("✓", "green") if holds else self._terminal.paint("✗", "red", "bold")
        self._terminal.print_line(f"  {mark} {claim}{'' if holds else f': {found}'}")

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Clear the progress line at the end of the block."""
        try:
            yield
        finally:
            self._terminal.clear_progress()

    def waiting(self, awaited: str) -> None:
        """Show a progress line on a terminal."""
        self._terminal.show_progress(f"{self._elapsed()}  … {awaited}")

    def _ordinal(self, received: Received) -> str:
        if received.type == RETRY_NOTICE.name:
            return f", retry {received.message['data']['retry_count']} announced"
        return f", retry {received.copy - 1}" if received.copy > 1 else ""

    def _line(self, mark: str, text: str) -> None:
        self._terminal.print_line(f"{self._elapsed()}  {mark} {text}")

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started:5.1f} s"


def _shortened(received: Received) -> str:
    text = re.sub(r"(_[0-9a-f]{8})[0-9a-f]{24}", r"\1…", json.dumps(received.message["data"], ensure_ascii=False))
    return text if len(text) <= MAX_DATA_CHARACTERS else f"{text[: MAX_DATA_CHARACTERS - 1]}…"
