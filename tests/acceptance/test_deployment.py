"""The page about deployment, and the files that it mentions."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command, get_commands
from django.db import connection

from tests.support.missing import skip_without
from webhooks_app.conf import Settings, setting_types
from webhooks_app.models import Delivery, DeliveryAttempt
from webhooks_app.protocol.ids import new_id
from webhooks_app.testing import Webhooks

from ..support.rows import emit_one, make_webhook
from .manifests import containers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text()
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
TIMERS = sorted((DEPLOY / "systemd").glob("*.timer"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
TEXTS = [PAGE, *(path.read_text() for path in [*UNITS, DEPLOY / "compose.yaml", DEPLOY / "Dockerfile"])]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_every_linked_page_and_file_exists():
    links = re.findall(r"\]\(([^)#:]+)\)", PAGE)

    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
    assert "(docs/deployment.md)" in (ROOT / "README.md").read_text()


def test_every_mentioned_setting_exists():
    named = {name for text in TEXTS for name in re.findall(r"\bWEBHOOKS_[A-Z_]+[A-Z]\b", text)}

    assert named - setting_types().keys() == set()


def test_every_mentioned_command_exists():
    named = {name for text in TEXTS for name in re.findall(r"manage\.py[, ]+([a-z_]+)", text)}

    assert {"check", "migrate", "estimate_capacity", "deliver_webhooks"} <= named
    assert named - get_commands().keys() == set()


def test_every_python_block_compiles():
    for code in blocks("python"):
        compile(code, "docs/deployment.md", "exec")


def test_the_plan_on_the_page_is_the_output_of_the_command():
    (command,) = re.findall(r"manage\.py (estimate_capacity .*)", PAGE)
    printed = io.StringIO()

    call_command(*command.split(), "--transport", "native", stdout=printed)

    assert printed.getvalue() in blocks("text")


@pytest.mark.parametrize("unit", [*UNITS, *TIMERS], ids=lambda path: path.name)
def test_systemd_accepts_the_unit(unit, tmp_path):
    if shutil.which("systemd-analyze") is None:
        skip_without("systemd-analyze was not found (Debian, Ubuntu: apt install systemd)")
    for each in [*UNITS, *TIMERS]:
        text = each.read_text().replace("User=mysite", "User=root").replace("WorkingDirectory=/srv/mysite", "")
        (tmp_path / each.name).write_text(re.sub(r"/srv/mysite/\.venv/bin/\w+", "/bin/true", text))
    copy = tmp_path / unit.name

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )

    assert (verified.returncode, copy.name in verified.stderr) == (0, False), verified.stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(line.partition("=")[2].partition("celery ")[2].replace("%%", "%"), id=unit.name)
        for unit in UNITS
        for line in unit.read_text().splitlines()
        if line.startswith("ExecStart=") and "/celery " in line
    ]
    + [
        pytest.param(" ".join(service["command"][1:]), id=name)
        for name, service in COMPOSE["services"].items()
        if service.get("command", [""])[0] == "celery"
    ]
    + [
        pytest.param(" ".join(container["command"][1:]), id=name)
        for name, container in containers()
        if container["command"][0] == "celery"
    ],
)
def test_celery_accepts_every_option(command):
    _, _, name, *options = command.split()
    asked = [sys.executable, "-m", "celery", "-A", "tests.support.celery", name, *options, "--help"]

    assert subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0
    known = subprocess.run([*asked[:6], "--help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [option for option in options if option.startswith("--") and option.partition("=")[0] not in known] == []


def test_workers_have_time_to_finish_requests_in_flight():
    assert "`WEBHOOKS_TIMEOUT_SECONDS` plus 20 s before SIGKILL" in PAGE
    needed = Settings.TIMEOUT_SECONDS + 20
    (unit,) = [path.read_text() for path in UNITS if "worker" in path.name]

    assert int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]) > needed
    assert int(COMPOSE["services"]["worker"]["stop_grace_period"].rstrip("s")) > needed


def test_the_services_have_valid_dependencies_and_environments():
    services = COMPOSE["services"]
    assert {"postgresql", "redis", "web", "worker", "beat"} <= services.keys()
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()
    variables = {
        name: re.sub(r"\$\{(\w+)(?::-([^}]*))?[^}]*\}", lambda given: given[2] or f"a-{given[1]}", value)
        for name, value in services["web"]["environment"].items()
    }
    variables["VAR_DIR"] = "/tmp"
    show = "from django.conf import settings as s; print(s.DEBUG, s.WEBHOOKS_ALLOW_HTTP, s.DATABASES['default'])"

    shown = subprocess.run(
        [sys.executable, "-c", show], cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=True
    ).stdout

    assert shown.startswith("False False ")
    assert "'HOST': 'postgresql'" in shown
    assert "'CONN_MAX_AGE': 60" in shown


@pytest.mark.only_on("postgresql")
@pytest.mark.django_db(transaction=True)
def test_attempts_can_be_stored_in_partitions(django_user_model):
    alice = django_user_model.objects.create_user("alice")
    make_webhook(alice, url="https://receiver.example.com/hook", retry_notices=False)
    tuning, partition, drop = blocks("sql")
    month = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)
    month = month.replace(day=1)
    following = (month + timedelta(days=32)).replace(day=1)
    partition = partition.replace("2026-12-01", f"{month:%Y-%m-%d}").replace("2027-01-01", f"{following:%Y-%m-%d}")

    assert delivered(alice) == 2
    with connection.cursor() as cursor:
        cursor.execute(tuning)
        cursor.execute(partition)
    try:
        assert delivered(alice) == 2
        assert DeliveryAttempt.objects.count() == 4
        newest = Delivery.objects.latest("id")
        newest.pk = new_id("dlv", month)
        newest.save(force_insert=True)
        DeliveryAttempt.objects.create(delivery=newest, number=1, started_at=month)
        with connection.cursor() as cursor:
            cursor.execute(drop)
        assert [attempt.delivery_id for attempt in DeliveryAttempt.objects.all()] == [newest.pk]
        newest.delete()
        assert not DeliveryAttempt.objects.exists()
        assert delivered(alice) == 2
        call_command("prune_webhooks", stdout=io.StringIO())
    finally:
        restore()


def delivered(owner):
    """Deliver an event that is answered with 500 and then 200. Return the number of requests."""
    with Webhooks() as webhooks:
        webhooks.receiver.answers = (500, 200)
        emit_one(owner)
        return len(webhooks.deliver())


def restore():
    """Restore the table for the following tests."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE webhooks_app_deliveryattempt; DROP FUNCTION webhooks_first_id; RESET lock_timeout")
        cursor.execute("ALTER TABLE webhooks_app_delivery RESET (autovacuum_vacuum_scale_factor)")
        cursor.execute("ALTER TABLE webhooks_app_delivery RESET (autovacuum_analyze_scale_factor)")
    with connection.schema_editor() as editor:
        editor.create_model(DeliveryAttempt)
