"""Prometheus, from Debian."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import requests

from .process import free_port, program, server_directory
from .process import running as running_process


@contextmanager
def running(config: str, *files: Path) -> Generator[str]:
    """Yield the URL of a new server with this configuration, which names ``files`` without their folders."""
    server = program("prometheus", package="prometheus")
    with server_directory("prometheus") as directory:
        url = f"http://127.0.0.1:{free_port()}"
        (directory / "prometheus.yml").write_text(config)
        for file in files:
            (directory / file.name).write_text(file.read_text())
        options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data"]
        options.append(f"--web.listen-address={url.removeprefix('http://')}")
        with running_process([server, *options], directory=directory, ready=lambda: _is_ready(url)):
            yield url


def _is_ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).ok
    except requests.ConnectionError:
        return False


def promtool() -> Path:
    return program("promtool", package="prometheus")
