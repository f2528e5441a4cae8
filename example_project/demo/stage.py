"""The demo's temporary service, with its own database, broker and port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from example_project import service
from example_project.processes import PROJECT_DIR, Processes

START_SECONDS = 300.0

OWN_VARIABLES = ("ADMIN_PASSWORD", "ALLOWED_HOSTS", "BASE_URL", "DEBUG", "LOG_LEVEL", "RECEIVER_PORT", "SECRET_KEY")
SERVER_VARIABLES = ("CELERY_BROKER_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")


class StageError(Exception):
    """The service did not start, or a command failed. The message contains the output."""


class Stage:
    """Starts web, worker and beat when the ``with`` block begins, and stops them when it ends."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._log: deque[str] = deque(maxlen=40)
        self._worker_is_ready = threading.Event()
        self.port = _free_port()
        self.base_url = f"http://{service.HOST}:{self.port}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="webhooks-demo-"))
            self._environment = _environment(Path(directory), self.port)
            self.manage("migrate", "--verbosity=0")
            self.processes = stack.enter_context(Processes(self._environment, self._hear))
            for name, command in service.commands(self.port).items():
                self.processes.start(name, command)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def last_lines(self) -> list[str]:
        """Last lines of the programs' output."""
        return list(self._log)

    def manage(self, *arguments: str) -> str:
        """Return the output of a management command. Raises StageError if it fails."""
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT_DIR,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise StageError(f"manage.py {arguments[0]} failed:\n{done.stderr.strip()}")
        return done.stdout.strip()

    def wait_until_ready(self) -> None:
        """Wait until the service and the worker are ready. Raises StageError or ProcessEndedError."""
        ends_at = time.monotonic() + START_SECONDS
        while not (self._worker_is_ready.is_set() and service.answers(self.port)):
            self.processes.wait(0.05)
            if time.monotonic() > ends_at:
                raise StageError(f"The service is not ready after {START_SECONDS:.0f} s.")

    def _hear(self, name: str, line: str) -> None:
        self._log.append(f"{name:<6} | {line}")
        if name == "worker" and line.endswith(" ready."):
            self._worker_is_ready.set()


def _environment(directory: Path, port: int) -> dict[str, str]:
    """Return this process's environment without variables that would change the service."""
    ours = {name for name in os.environ if name.startswith("WEBHOOKS_")}.union(OWN_VARIABLES, SERVER_VARIABLES)
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "VAR_DIR": str(directory), "PORT": str(port)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((service.HOST, 0))
        port: int = probe.getsockname()[1]
    return port
