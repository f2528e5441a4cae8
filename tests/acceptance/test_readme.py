"""The README, followed literally in a new project."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhooks_app.conf import Settings

from ..support.servers.process import free_port
from ..support.waiting import wait_until

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
FENCE = re.compile(r"(?P<mark><!-- test: not run here -->\n)?```(?P<language>python|sh)\n(?P<code>.*?)```", re.DOTALL)


class Newcomer:
    """A user who follows the README in a separate directory."""

    def __init__(self, directory: Path, broker_url: str) -> None:
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
        self.run("python -m django startproject mysite .")

    def follow(self, match: re.Match[str]) -> None:
        if match["mark"]:
            return
        if match["language"] == "python":
            self.write(match["code"])
        else:
            self.run(match["code"])

    def write(self, code: str) -> None:
        """Append a block to the file named in its first line."""
        path = self.project / code.splitlines()[0].removeprefix("# ")
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

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.seen().count(text) >= times, self.seen)


@pytest.fixture
def newcomer(tmp_path: Path, redis_url: str) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path, redis_url)
    yield newcomer
    newcomer.stop_all()


@pytest.mark.timeout(300)
def test_the_readme_leads_to_a_first_delivery_in_a_new_project(newcomer):
    for match in FENCE.finditer(README):
        if "emit_event" in match["code"]:
            newcomer.wait_for("webhook.verification")
        newcomer.follow(match)
    newcomer.wait_for("inv_1")
    newcomer.run("python manage.py check --fail-level WARNING --tag webhooks")
    assert not re.search(r"webhooks_app\.[WE]\d|database is locked|Traceback", newcomer.seen()), newcomer.seen()

    newcomer.stop_all()
    newcomer.start("python manage.py listen_webhooks --port 8001 --secret 'a secret that we share'")
    newcomer.start("celery -A mysite worker --loglevel INFO --concurrency 1")
    newcomer.run(
        """python manage.py emit_event invoice.paid --owner alice --data '{"invoice_id": "inv_2", "amount": 1}'"""
    )

    newcomer.wait_for("inv_2")
    newcomer.run(
        'python -c \'import django, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"; '
        "django.setup(); import billing.payments'"
    )


def test_every_setting_is_in_the_table_with_its_default():
    rows = dict(re.findall(r"^\| `WEBHOOKS_(\w+)` \| `(.*?)` \|", SETTINGS, re.MULTILINE))

    defaults = {name: getattr(Settings, name) for name in Settings.__annotations__ if name.isupper()}
    assert rows.keys() == defaults.keys()
    assert {name: eval(text) for name, text in rows.items()} == defaults


def test_the_readme_has_at_most_200_lines():
    assert len(README.splitlines()) <= 200


def test_every_linked_page_exists():
    links = re.findall(r"\]\(([^)#:]+)\)", README)

    assert [link for link in links if not (ROOT / link).exists()] == []
