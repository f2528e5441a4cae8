"""Checks of the wake-up of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
from celery import Celery
from django.core.checks import CheckMessage, Tags, run_checks
from django.db import connection

from tests.support.celery import app
from webhooks_app.beat import BEAT_SCHEDULE
from webhooks_app.checks import wake

from .conftest import Found

Check = Callable[..., Found]


@pytest.fixture
def celery_says() -> Iterator[Callable[..., None]]:
    """Replace the test project's Celery app by one with these settings."""

    def celery_says(**values: Any) -> None:
        host = Celery("host", set_as_current=False)
        host.conf.update({"beat_schedule": BEAT_SCHEDULE, "broker_url": "memory://", **values})
        host.set_current()

    yield celery_says
    app.set_current()


@pytest.fixture
def without_beat_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake.apps, "is_installed", lambda name: name != "django_celery_beat")


def test_eager_tasks_are_a_warning(found: Check, celery_says: Callable[..., None]) -> None:
    celery_says(task_always_eager=True)

    assert list(found()) == ["webhooks_app.W002"]


@pytest.mark.usefixtures("without_beat_in_the_database")
class TestBeat:
    def test_a_schedule_without_the_sweep_is_a_warning(self, found: Check, celery_says: Callable[..., None]) -> None:
        celery_says(beat_schedule={"other": {"task": "other.task", "schedule": 5}})

        assert "BEAT_SCHEDULE" in str(found()["webhooks_app.W003"].hint)

    def test_the_provided_schedule_passes(self, found: Check, celery_says: Callable[..., None]) -> None:
        celery_says(beat_schedule=BEAT_SCHEDULE)

        assert found() == {}

    def test_an_entry_may_have_another_name(self, found: Check, celery_says: Callable[..., None]) -> None:
        celery_says(beat_schedule=dict(enumerate(BEAT_SCHEDULE.values())))

        assert found() == {}

    def test_a_schedule_without_the_pruning_is_a_warning(self, found: Check, celery_says: Callable[..., None]) -> None:
        celery_says(beat_schedule={"mine": BEAT_SCHEDULE["webhooks-deliver-due"]})

        assert "webhooks_app.prune, which deletes old rows" in found()["webhooks_app.W003"].msg


def test_a_schedule_in_the_database_is_ignored(
    found: Check, celery_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake.apps, "is_installed", lambda name: name != "nothing")
    celery_says(beat_schedule={})

    assert found() == {}


@pytest.mark.django_db
def test_a_schedule_in_the_database_is_checked_with_the_database(celery_says: Callable[..., None]) -> None:
    beat = pytest.importorskip("django_celery_beat.models")
    celery_says(beat_schedule={})

    (message,) = of_the_database()
    assert "webhooks_app.deliver_due" in message.msg
    assert "BEAT_SCHEDULE" in str(message.hint)

    every, _ = beat.IntervalSchedule.objects.get_or_create(every=5, period="seconds")
    for task in ("webhooks_app.deliver_due", "webhooks_app.prune"):
        beat.PeriodicTask.objects.create(name=task, task=task, interval=every)
    assert of_the_database() == []


@pytest.mark.django_db
def test_beat_copies_the_schedule_of_the_settings(celery_says: Callable[..., None]) -> None:
    celery_says(beat_schedule=BEAT_SCHEDULE)

    assert of_the_database() == []


def of_the_database() -> list[CheckMessage]:
    messages = run_checks(tags=[Tags.database], databases=["default"])
    return [message for message in messages if message.id == "webhooks_app.W003"]


def test_celery_without_a_broker_is_a_warning(found: Check, celery_says: Callable[..., None], settings: Any) -> None:
    settings.WEBHOOKS_WAKE = "celery"
    celery_says(broker_url=None)

    assert "CELERY_BROKER_URL" in str(found()["webhooks_app.W013"].hint)

    celery_says(broker_url="memory://")
    assert found() == {}


@pytest.mark.parametrize(
    "broker",
    ["redis://localhost/0", "rediss://localhost", "amqp://one;redis://two", ["sentinel://localhost"]],
    ids=str,
)
def test_redis_without_its_packages_is_an_error(
    found: Check, celery_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch, broker: Any
) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    celery_says(broker_url=broker)
    assert found() == {}

    monkeypatch.setattr(wake, "distribution", missing)
    message = found()["webhooks_app.E011"]
    assert "redis" in message.msg
    assert 'pip install "django-webhooks-app[redis]"' in str(message.hint)


def test_another_broker_needs_no_redis(
    found: Check, celery_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "_is_installed", lambda name: False)
    celery_says(broker_url="amqp://localhost")

    assert found() == {}


def test_a_project_without_a_broker_needs_no_schedule(found: Check, celery_says: Callable[..., None]) -> None:
    celery_says(beat_schedule={}, broker_url=None)

    assert found() == {}


def test_a_project_without_celery_wake_ups_needs_no_schedule(
    found: Check, celery_says: Callable[..., None], settings: Any
) -> None:
    settings.WEBHOOKS_WAKE = "none"
    celery_says(beat_schedule={}, task_always_eager=True)

    assert found() == {}


@pytest.mark.parametrize("value", ["pigeon", "tests.checks.test_wake.Check", "webhooks_app.wake.celery"], ids=str)
def test_a_class_other_than_a_wake_is_an_error(found: Check, settings: Any, value: str) -> None:
    settings.WEBHOOKS_WAKE = value

    assert "celery, notify, django_tasks, none" in str(found()["webhooks_app.E023"].hint)


def test_notify_is_an_error_on_databases_without_it(found: Check, settings: Any) -> None:
    settings.WEBHOOKS_WAKE = "notify"

    assert ("webhooks_app.E021" in found()) == (connection.vendor != "postgresql")


def test_a_task_backend_without_workers_is_a_warning(found: Check, settings: Any) -> None:
    settings.WEBHOOKS_WAKE = "django_tasks"

    assert "ImmediateBackend" in found()["webhooks_app.W012"].msg
