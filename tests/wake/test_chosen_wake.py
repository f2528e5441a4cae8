"""The class chosen by ``WEBHOOKS_WAKE``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.db import connection

from webhooks_app.wake import BaseWake, configured_wake
from webhooks_app.wake.celery import CeleryWake
from webhooks_app.wake.messages import NotifyWake

SET_UP = """
import sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework", "webhooks_app"],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.{engine}", "NAME": ":memory:"}}}},
    SECRET_KEY="host",
    ROOT_URLCONF="webhooks_app.api.urls",
    WEBHOOKS_BUILTIN_EVENT_TYPES=True,
)
django.setup()
{use}
found = {unused} & set(sys.modules)
assert not found, found
"""

EMITTING = """
from django.core.management import call_command
call_command("check")
call_command("migrate", verbosity=0)
from webhooks_app import emit
from webhooks_app.doctor import examine
emit("file.deleted", {"file_id": "file_1", "user_id": "user_1", "filename": "a"}, owner=None)
examine()
"""

DELIVERING = """
from webhooks_app.database.dialects import dialect_of
from webhooks_app.delivery.engine import Engine
dialect_of("default")
"""


class Doorbell(BaseWake):
    def wake(self, using: str, webhook_ids: Any) -> None:
        """Ring."""


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"broker_url": "redis://127.0.0.1:9/0"}, id="broker"),
        pytest.param({"broker_write_url": "redis://127.0.0.1:9/0"}, id="broker to write to"),
        pytest.param({"task_always_eager": True}, id="eager tasks"),
    ],
)
def test_a_configured_broker_wakes_the_workers(host_celery: Any, values: dict[str, Any]) -> None:
    host_celery(**values)

    assert isinstance(configured_wake(), CeleryWake)


def test_without_a_broker_the_database_wakes_the_workers_if_it_can(
    host_celery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    host_celery()

    assert isinstance(configured_wake(), NotifyWake) == (connection.vendor == "postgresql")
    assert not isinstance(configured_wake(), CeleryWake)


def test_a_hosts_class_is_configured_by_its_path(settings: Any) -> None:
    settings.WEBHOOKS_WAKE = f"{__name__}.Doorbell"

    assert type(configured_wake()).__name__ == "Doorbell"
    assert configured_wake() is configured_wake()


@pytest.mark.parametrize(
    ("engine", "use", "unused"),
    [
        pytest.param("sqlite3", EMITTING, {"celery", "kombu"}, id="without celery"),
        pytest.param("postgresql", DELIVERING, {"idna", "sqlite3"}, id="on PostgreSQL"),
    ],
)
def test_a_process_does_not_import_what_its_host_does_not_use(engine: str, use: str, unused: set[str]) -> None:
    script = SET_UP.format(engine=engine, use=use, unused=unused)

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "webhooks_app.W003" not in done.stderr
