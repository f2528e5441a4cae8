"""A group of programs, started and stopped together."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

PROJECT_DIR = Path(__file__).resolve().parent.parent

PATIENCE_SECONDS = 45.0
"""Time for a program to stop. A worker finishes requests in flight, which takes up to 30 s."""

# If this process is killed, the system stops the others, where it supports this.
_SETPRIV = shutil.which("setpriv")
_ENDING_WITH_US = (_SETPRIV, "--pdeathsig", "TERM") if _SETPRIV else ()


class ProcessEndedError(Exception):
    """A program ended unexpectedly."""

    def __init__(self, name: str, status: int) -> None:
        self.name = name
        self.status = status
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        super().__init__(f"{name} {how}")


class Processes:
    """Programs started by name. ``on_line`` is called with the name of a program and each line of its output.

    The terminal's Ctrl-C does not reach them, so that they can be stopped in order. The end of the ``with`` block stops
    all of them.
    """

    def __init__(self, environment: Mapping[str, str], on_line: Callable[[str, str], object]) -> None:
        self._environment = {**environment, "PYTHONUNBUFFERED": "1"}
        self._on_line = on_line
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._ended: SimpleQueue[str] = SimpleQueue()
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str]) -> None:
        process = subprocess.Popen(  # noqa: S603 - our own commands
            [*_ENDING_WITH_US, *command],
            cwd=PROJECT_DIR,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._running[name] = process
        reader = threading.Thread(target=self._read, args=(name, process), daemon=True)
        reader.start()
        self._readers.append(reader)

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait for this time, or without limit. Raises ProcessEndedError as soon as a program ends."""
        try:
            name = self._ended.get(timeout=timeout_seconds)
        except Empty:
            return
        raise ProcessEndedError(name, self._running[name].wait())

    def stop(self) -> None:
        """Terminate every program, and kill those that do not stop in time."""
        for process in self._running.values():
            _send(process, signal.SIGTERM)
        ends_at = time.monotonic() + PATIENCE_SECONDS
        for process in self._running.values():
            try:
                process.wait(max(0.0, ends_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                _send(process, signal.SIGKILL)
                process.wait()
        for reader in self._readers:
            reader.join(timeout=1)

    def kill(self) -> None:
        """Kill every program."""
        for process in self._running.values():
            _send(process, signal.SIGKILL)

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._on_line(name, line.rstrip())
        self._ended.put(name)


def _send(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to a program and its children."""
    if process.poll() is None:
        os.killpg(process.pid, number)
