"""Fixtures of a browser in the console, with rows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, expect, sync_playwright

from demo_data.writing import Size, make_demo_data
from tests.support.missing import skip_without
from tests.support.servers.process import ServerMissingError, free_port, listens, program, running
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.runner import MaintenanceRunner
from webhooks_app.models import ApiKey, Delivery, MaintenanceJob, Problem, Replay, Webhook, WorkerProcess
from webhooks_app.receiver.local import LocalReceiver, Received
from webhooks_app.signals import deliveries_created

from ..support.databases import URL_VARIABLE
from ..support.engines import at_work
from ..support.rows import EVENT_TYPE, make_problem, make_webhook, plan_replay

SECRET = "a shared secret of the tests"
ARRIVES_WITHIN_SECONDS = 30
PLAIN_HOST = "plain.test"
"""A host that the browser does not trust without HTTPS, unlike those of the loopback interface."""
EXPECT_MILLISECONDS = 30_000
"""Timeout for expectations, long enough for a machine busy with other tests."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of a module in one process of pytest-xdist, and so in one browser."""
    if not item.get_closest_marker("xdist_group"):
        item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. While it is open, an event loop runs in this thread, so Django's check for one is disabled."""
    try:
        path = _chromium()
    except ServerMissingError as error:
        skip_without(error)
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        expect.set_options(timeout=EXPECT_MILLISECONDS)
        args = ["--no-sandbox", f"--host-resolver-rules=MAP {PLAIN_HOST} 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=path, args=args)
        yield browser
        browser.close()


def _chromium() -> Path:
    """Return the path of the headless shell, which takes half the time, or of the regular browser."""
    try:
        return program("chromium-headless-shell", package="chromium-headless-shell")
    except ServerMissingError:
        return program("chromium", package="chromium")


@dataclass(frozen=True, kw_only=True)
class Login:
    """The admin of a running server, with the session of a user."""

    address: str
    session: str

    @property
    def cookie(self) -> dict[str, str]:
        return {"name": django_settings.SESSION_COOKIE_NAME, "value": self.session, "url": self.address}


@dataclass(frozen=True, kw_only=True)
class Console(Login):
    """The admin with the session of a superuser."""

    superuser: Any


def new_session(account: Any) -> str:
    client = Client()
    client.force_login(account)
    return client.cookies[django_settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def empty_console(live_server: Any) -> Console:
    superuser = get_user_model().objects.create_superuser("root")
    return Console(address=live_server.url, session=new_session(superuser), superuser=superuser)


@pytest.fixture
def console(empty_console: Console) -> Console:
    """The console with rows in every state, some with texts of maximum length."""
    now = timezone.now()
    make_demo_data(Size(deliveries=120, owners=2, webhooks=12, days=3), until=now - timedelta(minutes=5))
    ApiKey.objects.make(owner=empty_console.superuser, name="Integration")
    WorkerProcess.objects.create(id="x", host="x" * 100, pid=4_000_000, version="1.0", started_at=now, seen_at=now)
    MaintenanceJob.objects.update_or_create(name="fold", defaults={"ended_at": now, "error": "DataError: " + "x" * 400})
    longest = Webhook.objects.filter(status=Webhook.Status.FAILED).get()
    longest.url = "https://" + "a" * 60 + ".invalid/" + "b" * 900
    longest.status_reason = "Answered with " + "x" * 400
    longest.save()
    return empty_console


@contextmanager
def served_in(theme: str, console: Console, directory: Path) -> Iterator[Console]:
    """Yield the console in another admin theme, served by a process of its own with the same database."""
    port = free_port()
    variables = {
        "DJANGO_SETTINGS_MODULE": "tests.browser.themes",
        "ADMIN_THEME": theme,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        URL_VARIABLE: f"sqlite:///{connection.settings_dict['NAME']}",
    }
    command = [sys.executable, "-m", "django", "runserver", "--noreload", "--insecure", f"127.0.0.1:{port}"]
    with running(command, directory=directory, ready=lambda: listens(port), env=variables):
        yield replace(console, address=f"http://127.0.0.1:{port}")


def failed_delivery() -> Delivery:
    return Delivery.objects.filter(state=Delivery.State.GIVEN_UP).latest("pk")


def an_active_webhook() -> Webhook:
    active = Webhook.objects.filter(status=Webhook.Status.ACTIVE, paused_at=None, owner__isnull=False)
    return active.latest("pk")


def a_problem() -> Problem:
    now = timezone.now()
    missed = {"missed_from": now - timedelta(hours=2), "count": 1234}
    webhook = Webhook.objects.filter(status=Webhook.Status.FAILED).get()
    return webhook.problems.filter(code=503).first() or make_problem(webhook, code=503, **missed)


def a_replay() -> Replay:
    """Plan the replay of all events of a webhook."""
    webhook = an_active_webhook()
    return plan_replay(webhook, since=webhook.created_at, states=Replay.Outcome.values)


class Receiver(LocalReceiver):
    """A receiver that can delay its answers."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()
        super().__init__(secrets=[SECRET], on_received=lambda received: self.may_answer.wait(ARRIVES_WITHIN_SECONDS))

    def gets(self, event_type: str, path: str, **data: Any) -> Received:
        """Wait for a signed event with exactly this data, and return its request."""

        def is_it(each: Received) -> bool:
            return (each.type, each.path, each.message.get("data"), each.is_verified) == (event_type, path, data, True)

        assert self.wait_until(lambda received: any(map(is_it, received)), ARRIVES_WITHIN_SECONDS), self.received
        return next(filter(is_it, self.received))

    def got(self, path: str) -> list[str]:
        """Return the ids of the events received so far."""
        return [each.event_id for each in self.events() if each.path == path]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver
        receiver.may_answer.set()


@pytest.fixture
def worker(transactional_db: None) -> Iterator[None]:
    """Run a worker that delivers and runs the maintenance jobs."""
    engine = Engine()

    def wake(**arguments: Any) -> None:
        engine.wake()

    with at_work(engine):
        deliveries_created.connect(wake)
        with MaintenanceRunner(engine):
            yield
        deliveries_created.disconnect(wake)


def make_staff(name: str, *, may: str = "") -> Any:
    """Create a user with all permissions of the app except to manage all, or only those that start with ``may``."""
    account = get_user_model().objects.create_user(name, is_staff=True)
    permissions = Permission.objects.filter(content_type__app_label="webhooks_app", codename__startswith=may)
    account.user_permissions.set(permissions.exclude(codename="manage_all_webhooks"))
    return account


@pytest.fixture
def amina(transactional_db: None) -> Any:
    return make_staff("amina")


@pytest.fixture
def login(live_server: Any, amina: Any) -> Login:
    return Login(address=live_server.url, session=new_session(amina))


@pytest.fixture
def webhook(receiver: Receiver, amina: Any) -> Webhook:
    return make_webhook(amina, EVENT_TYPE, url=f"{receiver.url}hook", secret=SECRET)
