"""The pages of the section Start, followed to the letter."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.missing import skip_without
from webhooks_app.conf import Settings

from ..acceptance.newcomer import FENCE, Newcomer
from .pages import DOCS, blocks

QUICKSTART = (DOCS / "start" / "quickstart.md").read_text()
UNITS = {block.file.rpartition("/")[2]: block.code for block in blocks("ini", under=("start/",))}
(COMPOSE,) = [yaml.safe_load(block.code) for block in blocks("yaml", under=("start/",)) if block.file == "compose.yaml"]


@pytest.mark.timeout(300)
@pytest.mark.only_on("sqlite")
def test_the_first_delivery_arrives_by_the_page_alone(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path, project=False)
    try:
        for match in FENCE.finditer(QUICKSTART):
            if "emit_event" in match["code"]:
                newcomer.wait_for("webhook.verification")
            newcomer.follow(match)
        newcomer.wait_for("inv_1")
        newcomer.run(
            'python -c \'import django, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"; '
            "django.setup(); import billing.payments'"
        )
    finally:
        newcomer.stop_all()

    assert not re.search(r"webhooks_app\.[WE]\d|database is locked|Traceback", newcomer.seen()), newcomer.seen()


@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_a_unit(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        skip_without("systemd-analyze was not found (Debian, Ubuntu: apt install systemd)")
    for unit, code in UNITS.items():
        text = code.replace("User=mysite", "User=root").replace("WorkingDirectory=/srv/mysite", "")
        (tmp_path / unit).write_text(re.sub(r"/srv/mysite/\.venv/bin/\w+", "/bin/true", text))

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / name], capture_output=True, text=True, check=False
    )

    assert (verified.returncode, name in verified.stderr) == (0, False), verified.stderr


def test_the_services_depend_on_services() -> None:
    services = COMPOSE["services"]

    assert {"web", "deliver", "prune", "migrate", "postgresql"} <= services.keys()
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()


def test_the_celery_workers_consume_the_queue_of_the_settings() -> None:
    page = (DOCS / "start" / "production.md").read_text()
    (queue,) = re.findall(r'CELERY_TASK_ROUTES = .*"queue": "(\w+)"', page)

    commands = re.findall(r"celery -A mysite worker.*?(?=[`\n])", page)
    assert len(commands) == 2
    assert [command for command in commands if f"--queues {queue}" not in command] == []


def test_requests_in_flight_may_finish_before_the_kill() -> None:
    needed = Settings.TIMEOUT_SECONDS + 20

    assert int(re.search(r"TimeoutStopSec=(\d+)", UNITS["webhooks-deliver@.service"])[1]) > needed
    assert int(COMPOSE["services"]["deliver"]["stop_grace_period"].rstrip("s")) > needed
