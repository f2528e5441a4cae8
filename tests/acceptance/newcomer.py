"""A user who follows a page literally in a new project."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import requests

from ..support.servers.process import free_port
from ..support.waiting import wait_until

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?P<mark><!-- test: not run here -->\n)?```(?P<language>python|html|sh)\n(?P<code>.*?)```", re.DOTALL
)


SAVE_AGAIN_SECONDS = 15


def is_served(url: str) -> bool:
    try:
        return requests.get(url, timeout=10).status_code == 200
    except requests.RequestException:
        return False


class Newcomer:
    """A user who follows the blocks of a page in a separate directory."""

    def __init__(self, directory: Path, broker_url: str = "redis://127.0.0.1:6379/0", *, project: bool = True) -> None:
        self.project = directory / "project"
        self.log = directory / "terminal.log"
        self.ports = {
            "8000": str(free_port()),
            "8001": str(free_port()),
            "6379": broker_url.split(":")[2].split("/", maxsplit=1)[0],
        }
        binaries = str(Path(sys.executable).parent)
        variables = {
            key: value for key, value in os.environ.items() if not key.startswith(("DJANGO", "TEST_", "CELERY"))
        }
        self.environment = {
            **variables,
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        self.background: list[subprocess.Popen[bytes]] = []
        self.project.mkdir()
        if project:
            self.run("python -m django startproject mysite .")

    def follow(self, match: re.Match[str]) -> None:
        if match["mark"]:
            return
        if match["language"] != "sh":
            self.write(match["code"])
        else:
            self.run(match["code"])

    def write(self, code: str) -> None:
        """Append a block to the file named in its first line."""
        path = self.project / code.splitlines()[0].strip("<!-# >")
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else ""
        path.write_text(f"{before}\n{self.with_free_ports(code)}")

    def run(self, commands: str) -> None:
        commands = self.with_free_ports(commands)
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                ["bash", "-e", "-c", f"{commands}\ntrue"],
                cwd=self.project,
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.background.append(process)
        assert process.wait(120) == 0, self.seen()

    def with_free_ports(self, text: str) -> str:
        for port, free in self.ports.items():
            text = text.replace(f":{port}", f":{free}").replace(f" {port}", f" {free}")
        return text

    def start(self, command: str) -> None:
        self.run(f"{command} &")

    def stop_all(self) -> None:
        for process in self.background:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue

    def seen(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until_served(self, url: str) -> None:
        """Wait for a page of the development server, which misses changes of files while it restarts.

        The files are therefore saved again if the page is still missing after some time.
        """
        saved_at = time.monotonic()

        def is_there() -> bool:
            nonlocal saved_at
            if time.monotonic() > saved_at + SAVE_AGAIN_SECONDS:
                saved_at = time.monotonic()
                for path in self.project.rglob("*.py"):
                    path.touch()
            return is_served(url)

        wait_until(is_there, self.seen, timeout_seconds=120)

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.seen().count(text) >= times, self.seen)
