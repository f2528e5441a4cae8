"""The progress of a measurement: a bar, if standard error is a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import rich.progress
from rich.console import Console

SHOW_EVERY_SECONDS = 0.1


class Progress:
    """A progress bar on stderr. A scenario sets the current step and, if known, its size."""

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
        """Show the completed part. Cheap enough for loops whose time is measured."""
        now = time.monotonic()
        if now >= self._show_at:
            self._show_at = now + SHOW_EVERY_SECONDS
            self._bar.update(self._task, completed=count)
