"""What usually goes wrong around us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from cryptography.fernet import Fernet
from django.core.cache.backends.locmem import LocMemCache
from django.db import connection
from django.db.models import Model
from django.test import override_settings

from tests.celery import app
from webhooks_app.beat import BEAT_SCHEDULE
from webhooks_app.checks import surroundings

from .conftest import Found

Check = Callable[..., Found]


@pytest.fixture
def celery_says() -> Iterator[Callable[..., None]]:
    """Put a Celery app with these settings in the place of the test project's."""

    def celery_says(**values: Any) -> None:
        host = Celery("host", set_as_current=False)
        host.conf.update({"beat_schedule": BEAT_SCHEDULE, **values})
        host.set_current()

    yield celery_says
    app.set_current()


@pytest.fixture
def without_beat_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings.apps, "is_installed", lambda name: name != "django_celery_beat")


def test_without_time_zones_nothing_can_be_due(found: Check) -> None:
    with override_settings(USE_TZ=False):
        assert "webhooks_app.E012" in found()


class Elsewhere:
    def db_for_write(self, model: type[Model], **hints: object) -> str:
        return "elsewhere"


def test_tables_in_another_database_are_refused(found: Check) -> None:
    with override_settings(DATABASE_ROUTERS=["tests.checks.test_surroundings.Elsewhere"]):
        assert "elsewhere" in found()["webhooks_app.E013"].msg


def test_eager_tasks_are_warned_of(found: Check, celery_says: Callable[..., None]) -> None:
    celery_says(task_always_eager=True)

    assert list(found()) == ["webhooks_app.W002"]


@pytest.mark.usefixtures("without_beat_in_the_database")
class TestBeat:
    def test_a_schedule_without_the_sweep_is_warned_of(self, found: Check, celery_says: Callable[..., None]) -> None:
        celery_says(beat_schedule={"other": {"task": "other.task", "schedule": 5}})

        assert "BEAT_SCHEDULE" in str(found()["webhooks_app.W003"].hint)

    def test_our_schedule_is_enough(self, found: Check, celery_says: Callable[..., None]) -> None:
        celery_says(beat_schedule=BEAT_SCHEDULE)

        assert found() == {}

    def test_the_sweep_may_go_by_another_name(self, found: Check, celery_says: Callable[..., None]) -> None:
        celery_says(beat_schedule={"mine": BEAT_SCHEDULE["webhooks-deliver-due"]})

        assert found() == {}


def test_a_schedule_in_the_database_is_left_alone(
    found: Check, celery_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings.apps, "is_installed", lambda name: name == "django_celery_beat")
    celery_says(beat_schedule={})

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

    monkeypatch.setattr(surroundings, "distribution", missing)
    message = found()["webhooks_app.E011"]
    assert "redis" in message.msg
    assert "django-webhooks-app[redis]" in str(message.hint)


def test_another_broker_needs_no_redis(
    found: Check, celery_says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "_is_installed", lambda name: False)
    celery_says(broker_url="amqp://localhost")

    assert found() == {}


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("options", [{}, {"transaction_mode": "DEFERRED"}], ids=["nothing said", "deferred"])
def test_sqlite_that_begins_by_reading_is_warned_of(
    found: Check, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)

    assert "IMMEDIATE" in str(found()["webhooks_app.W004"].hint)


def test_the_checks_make_no_query(found: Check) -> None:
    # pytest-django lets no test without the database mark make one.
    found(deploy=True)


class CacheOfAHost(LocMemCache):
    pass


DEPLOYMENT = [
    pytest.param({"WEBHOOKS_ALLOW_HTTP": True}, "W005", id="http allowed"),
    pytest.param({"WEBHOOKS_ALLOWED_NETWORKS": ["10.0.0.0/8"]}, "W006", id="networks allowed"),
    pytest.param({"WEBHOOKS_ENCRYPTION_KEYS": []}, "W007", id="no key of its own"),
    pytest.param({"WEBHOOKS_ENCRYPTION_KEYS": ["SECRET_KEY"]}, "W007", id="derived key first"),
    pytest.param(
        {"CACHES": {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}, "W008", id="own cache"
    ),
    pytest.param(
        {"CACHES": {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}}, "W008", id="no cache"
    ),
    pytest.param(
        {"CACHES": {"default": {"BACKEND": f"{__name__}.CacheOfAHost"}}}, "W008", id="own cache under another name"
    ),
]

DEPLOYED = {
    "DEBUG": False,
    "WEBHOOKS_ALLOW_HTTP": False,
    "WEBHOOKS_ALLOWED_NETWORKS": [],
    "WEBHOOKS_ENCRYPTION_KEYS": [Fernet.generate_key().decode()],
    "CACHES": {"default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache"}},
}


def test_a_careful_deployment_is_fine(found: Check) -> None:
    with override_settings(**DEPLOYED):
        assert found(deploy=True) == {}


@pytest.mark.parametrize(("values", "expected"), DEPLOYMENT)
def test_a_careless_deployment_is_warned_of(found: Check, values: dict[str, Any], expected: str) -> None:
    with override_settings(**DEPLOYED | values):
        assert list(found(deploy=True)) == [f"webhooks_app.{expected}"]
        assert found() == {}


def test_a_developer_may_reach_the_own_machine(found: Check) -> None:
    own_machine = {"DEBUG": True, "WEBHOOKS_ALLOW_HTTP": True, "WEBHOOKS_ALLOWED_NETWORKS": ["127.0.0.0/8"]}

    with override_settings(**DEPLOYED | own_machine):
        assert found(deploy=True) == {}


def test_a_cache_in_files_is_warned_of(found: Check, tmp_path: Path) -> None:
    in_files = {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": str(tmp_path)}

    with override_settings(**DEPLOYED | {"CACHES": {"default": in_files}}):
        messages = found(deploy=True)

    assert "many requests at once" in messages["webhooks_app.W008"].msg
