"""Redis, from Debian."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .process import free_port, listens, program, server_directory
from .process import running as running_process


@contextmanager
def running() -> Generator[str]:
    """Yield the URL of a new Redis server without persistence."""
    server = program("redis-server", package="redis-server")
    with server_directory("redis") as directory:
        port = free_port()
        command: list[str | Path] = [
            server,
            "--bind",
            "127.0.0.1",
            "--port",
            str(port),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        with running_process(command, directory=directory, ready=lambda: listens(port)):
            yield f"redis://127.0.0.1:{port}/0"
