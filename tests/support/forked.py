"""Python programs in processes of their own, forked from a process that has already imported the libraries.

To import Celery, Django and their like takes twice the CPU time of everything else that starts a worker.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import FileIO
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.preloaded"])


class Forked:
    """``python -m`` with these arguments. It leads its own process group, and has the methods of ``subprocess.Popen``.

    ``stdin`` and ``stdout`` are its pipes if ``is_piped``; otherwise it reads nothing, and its output is in the log.
    """

    def __init__(
        self, arguments: Sequence[str], *, directory: Path, log: Path, env: Mapping[str, str], is_piped: bool = False
    ) -> None:
        ours, theirs = _context.Pipe()
        begun, begins = _context.Pipe(duplex=False)
        log.touch()
        with ours, theirs, begun, begins, _without_main():
            program = (list(arguments), directory, log, dict(env), theirs if is_piped else None, begins)
            self._process = _context.Process(target=_run, args=program, daemon=True)
            self._process.start()
            begins.close()
            begun.poll(None)  # From here on it leads a group, which can be killed.
            self.stdin, self.stdout = (_file(ours, "wb"), _file(ours, "rb")) if is_piped else (None, None)
        assert self._process.pid
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative after a signal; None while the process runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _file(connection: Connection, mode: str) -> FileIO:
    return FileIO(os.dup(connection.fileno()), mode)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the program of this process, which the new one would otherwise import."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _run(
    arguments: list[str],
    directory: Path,
    log: Path,
    env: dict[str, str],
    pipes: Connection | None,
    begins: Connection,
) -> None:
    os.setsid()
    begins.close()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(env)
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    if pipes is not None:
        os.dup2(pipes.fileno(), 0)
        os.dup2(pipes.fileno(), 1)
        pipes.close()
        sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
