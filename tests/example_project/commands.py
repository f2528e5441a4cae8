"""Runs the example project's programs on loopback, without files in the checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Program:
    """A running program; ``lines`` is its output."""

    def __init__(self, module: str, variables: Mapping[str, str]) -> None:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("WEBHOOKS_", "CELERY_", "DJANGO_", "DATABASE_"))
        }
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env={**kept, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, condition: Callable[[str], bool], timeout: float = 60) -> str:
        """Return the first line that meets the condition."""
        with self._changed:
            found = self._changed.wait_for(lambda: next(filter(condition, self.lines), None), timeout)
        assert found, f"it did not come:\n{self.output}"
        return found

    def wait(self, timeout: float = 60) -> int:
        """Return the exit status after reading all output."""
        status = self.process.wait(timeout)
        self._reader.join(timeout)
        return status

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as output:
            for line in output:
                with self._changed:
                    self.lines.append(line.rstrip())
                    self._changed.notify_all()


@contextmanager
def running(module: str, **variables: str) -> Iterator[Program]:
    """Run a module with these environment variables, and interrupt it at the end of the block."""
    program = Program(module, variables)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.send_signal(signal.SIGINT)
        program.wait()
