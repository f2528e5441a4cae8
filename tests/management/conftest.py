"""Fixtures that run commands in this process or in separate processes on the same database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import connection

from tests.support.databases import URL_VARIABLE
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Webhook
from webhooks_app.receiver.local import LocalReceiver

from ..support.commands import Output, run_command
from ..support.engines import at_work

ROOT = Path(__file__).parents[2]
SECRET = "a shared secret of the tests"


@pytest.fixture(autouse=True)
def _unthrottled() -> None:
    cache.clear()


@pytest.fixture
def owner(db: None) -> Any:
    return get_user_model().objects.create_user("amina", email="amina@example.com")


@pytest.fixture
def receiver() -> Iterator[LocalReceiver]:
    with LocalReceiver(secrets=[SECRET]) as receiver:
        yield receiver


@pytest.fixture
def webhook(owner: Any, receiver: LocalReceiver) -> Webhook:
    """An active webhook of the receiver."""
    webhook = Webhook(owner=owner, url=receiver.url, event_types=["file.deleted"], secret=SECRET)
    webhook.status = Webhook.Status.ACTIVE
    webhook.save()
    return webhook


@pytest.fixture
def worker(transactional_db: None) -> Iterator[Engine]:
    """A delivery engine in a thread, as in a worker."""
    with at_work(Engine()) as engine:
        yield engine


@pytest.fixture
def run() -> Callable[..., Output]:
    """Run a command in this process. Its exceptions propagate."""
    return run_command


@pytest.fixture
def begin() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in a separate process, killed at the end of the test."""
    processes: list[subprocess.Popen[str]] = []

    def begin(name: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "django", name, *arguments],
            cwd=ROOT,
            env=_environment() | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def _environment() -> dict[str, str]:
    url = urlsplit(os.environ[URL_VARIABLE])
    return {
        **{name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")},
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        URL_VARIABLE: f"{url.scheme}://{url.netloc}/{connection.settings_dict['NAME']}",
    }
