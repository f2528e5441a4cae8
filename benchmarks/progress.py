"""How far a measurement has come: a bar on a terminal, nothing where nobody looks."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import rich.progress
from rich.console import Console

SHOW_EVERY_SECONDS = 0.1


class Progress:
    """A bar on stderr. A scenario names the step it is at and, where it knows, how much of it is done."""

    def __init__(self, title: str) -> None:
        self._title = title
        console = Console(stderr=True)
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._show_at = 0.0
        self._task = self._bar.add_task(title, total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def retitle(self, title: str) -> None:
        self._title = title
        self.step("starting")

    def step(self, text: str, total: int | None = None) -> None:
        self._bar.reset(self._task, description=f"{self._title}: {text}", total=total)

    def done(self, count: int) -> None:
        """Show how much is done; cheap enough for a loop that is being timed."""
        now = time.monotonic()
        if now >= self._show_at:
            self._show_at = now + SHOW_EVERY_SECONDS
            self._bar.update(self._task, completed=count)
