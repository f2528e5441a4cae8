"""The processes of a host: workers, beats, the emitter and the receiver. Each leads its own process group."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..support.forked import Forked
from ..support.waiting import wait_until

ROOT = Path(__file__).parents[2]


class Process:
    """A running Python module with its log. ``kill`` and ``freeze`` affect the whole group."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        ready: str = "",
        is_piped: bool = False,
    ) -> None:
        self.log = log
        self._ready = ready
        self.popen = Forked(arguments, directory=ROOT, log=log, env=env, is_piped=is_piped)

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def records(self) -> list[str]:
        """The first lines of Celery's log records."""
        return [line for line in self.output.splitlines() if line.startswith("[2")]

    @property
    def is_running(self) -> bool:
        return self.popen.poll() is None

    def wait_until_ready(self) -> None:
        is_over = lambda: self._ready in self.output or not self.is_running  # noqa: E731
        wait_until(is_over, lambda: self.output[-3000:], timeout_seconds=90)
        assert self.is_running, self.output[-3000:]

    def kill(self) -> None:
        """Kill the process and its children, as the kernel does when memory is exhausted."""
        os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(30)

    def freeze(self) -> None:
        os.killpg(self.popen.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.popen.pid, signal.SIGCONT)

    def request_stop(self) -> None:
        self.popen.send_signal(signal.SIGTERM)

    def close(self) -> None:
        if self.is_running:
            self.kill()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()


class Host(Process):
    """The emitting process. Between ``begin`` and ``report`` a fault can occur."""

    def __init__(self, *, log: Path, env: Mapping[str, str]) -> None:
        super().__init__(["tests.faults.host"], log=log, env=env, is_piped=True)

    def wait_until_ready(self) -> None:
        assert self._read_line() == "ready"

    def begin(
        self,
        count: int,
        *,
        ending: str = "commit",
        pause_seconds: float = 0,
        until_committed: bool = False,
        keys: int = 0,
    ) -> None:
        assert self.popen.stdin
        command = {
            "count": count,
            "ending": ending,
            "pause_seconds": pause_seconds,
            "until_committed": until_committed,
            "keys": keys,
        }
        self.popen.stdin.write((json.dumps(command) + "\n").encode())

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self._read_line())
        return report

    def _read_line(self) -> str:
        assert self.popen.stdout
        line = self.popen.stdout.readline().decode().strip()
        assert line, f"The host's process ended:\n{self.output[-3000:]}"
        return line
