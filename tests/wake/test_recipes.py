"""The documented recipes for task queues, the one for Huey with a real consumer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from webhooks_app.models import Delivery, WorkerSession
from webhooks_app.receiver.local import LocalReceiver
from webhooks_app.wake import BaseMessageWake

from ..support.databases import URL_VARIABLE
from ..support.rows import make_webhook
from ..support.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGES = ("waking.md",)
RECIPE = re.compile(r"^##+ (\w+)\n(?:(?!^##).)*?```python\n# billing/tasks.py\n(.*?)```", re.MULTILINE | re.DOTALL)
RECIPES = {name: code for page in PAGES for name, code in RECIPE.findall((ROOT / "docs" / page).read_text())}
SETTINGS = """
from tests.settings import *

INSTALLED_APPS = [*INSTALLED_APPS, "huey.contrib.djhuey", "billing"]
HUEY = {{"huey_class": "huey.SqliteHuey", "filename": {queue!r}, "immediate": False, "consumer": {{"workers": 2}}}}
WEBHOOKS_WAKE = "billing.tasks.HueyWake"
WEBHOOKS_SWEEP_SECONDS = 3600
"""
EMIT = """
import django
django.setup()
from django.contrib.auth import get_user_model
from webhooks_app import emit
emit("ppt.generation.failed", {"error": "x"}, owner=get_user_model().objects.get())
"""
SECRET = "a secret of the recipes"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A project with the recipe for Huey; return a function that starts its processes on the test's database."""
    (tmp_path / "billing").mkdir()
    (tmp_path / "billing" / "__init__.py").touch()
    (tmp_path / "billing" / "tasks.py").write_text(RECIPES["Huey"])
    (tmp_path / "host_settings.py").write_text(SETTINGS.format(queue=str(tmp_path / "queue.db")))
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "host_settings",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        URL_VARIABLE: f"sqlite:///{connection.settings_dict['NAME']}",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, *arguments], cwd=tmp_path, env=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_each_queue_has_a_documented_recipe() -> None:
    for name, code in RECIPES.items():
        compile(code, name, "exec")

    assert list(RECIPES) == ["Huey", "RQ", "Dramatiq"]


@pytest.mark.only_on("sqlite")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_huey_consumer_delivers(alice: Any, host: Callable[..., Any], kind: str) -> None:
    with LocalReceiver(secrets=[SECRET]) as receiver:
        make_webhook(alice, url=receiver.url, secret=SECRET)
        consumer = host("-m", "django", "run_huey", "--worker-type", kind, "--workers", "1")
        wait_until(WorkerSession.objects.exists)
        assert host("-c", EMIT).wait(60) == 0
        wait_until(lambda: len(receiver.events()) == 1)

        consumer.send_signal(signal.SIGINT)
        consumer.wait(60)

    assert [delivery.state for delivery in Delivery.objects.all()] == ["succeeded"]
    assert not WorkerSession.objects.exists()


def test_djangos_task_framework_gets_a_task(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from webhooks_app.wake.django_tasks import DjangoTasksWake, deliver_due

    enqueued: list[Any] = []
    monkeypatch.setattr(type(deliver_due.get_backend()), "enqueue", lambda self, task, *_: enqueued.append(task))

    wake: BaseMessageWake = DjangoTasksWake()
    wake.send()

    assert enqueued == [deliver_due]
