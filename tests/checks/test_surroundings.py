"""Checks of the database and of Django's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.core.cache.backends.locmem import LocMemCache
from django.db import connection, connections
from django.db.models import Model
from django.test import override_settings

from .conftest import Found

Check = Callable[..., Found]


def test_missing_time_zone_support_is_an_error(found: Check) -> None:
    with override_settings(USE_TZ=False):
        assert "webhooks_app.E012" in found()


class Divided:
    """Routes events to another database."""

    def db_for_write(self, model: type[Model], **hints: object) -> str | None:
        return "elsewhere" if model._meta.model_name == "event" else None


class Elsewhere:
    """Routes everything to one database."""

    def db_for_write(self, model: type[Model], **hints: object) -> str:
        return "elsewhere"

    def db_for_read(self, model: type[Model], **hints: object) -> str:
        return "elsewhere"

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return db == "elsewhere"


class Replicas(Elsewhere):
    """The router of Django's documentation."""

    def db_for_read(self, model: type[Model], **hints: object) -> str:
        return "replica"

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return True


class NeverMigratedReplicas(Replicas):
    """The tables of the replica come with its rows."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return db == "elsewhere"


class Forgetful(Elsewhere):
    """Writes to a database without migrations."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return db == "default"


@pytest.mark.parametrize("router", [Divided, Forgetful], ids=lambda router: router.__name__)
def test_a_router_that_divides_the_tables_is_an_error(found: Check, router: type) -> None:
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.{router.__name__}"]):
        assert found().keys() & {"webhooks_app.E013", "webhooks_app.E022"}


@pytest.mark.parametrize("router", [Elsewhere, Replicas, NeverMigratedReplicas], ids=lambda router: router.__name__)
def test_all_tables_may_be_in_any_single_database(found: Check, router: type) -> None:
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.{router.__name__}"]):
        assert found() == {}


def test_an_unsupported_database_is_an_error(found: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "webhooks_app.E017" not in found()

    monkeypatch.setattr(connection, "vendor", "oracle")
    monkeypatch.setattr(type(connections["default"]), "display_name", "Oracle")

    message = found()["webhooks_app.E017"]
    assert "Oracle" in message.msg
    assert str(message.hint).startswith("Use one of PostgreSQL, MySQL, MariaDB, SQLite.")


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("options", [{}, {"transaction_mode": "DEFERRED"}], ids=["nothing said", "deferred"])
def test_deferred_transactions_of_sqlite_are_a_warning(
    found: Check, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)

    assert "IMMEDIATE" in str(found()["webhooks_app.W004"].hint)


@pytest.mark.parametrize("pool", [{"max_size": 3}, {"min_size": 2}, {"min_size": 0, "max_size": 1}], ids=str)
def test_a_pool_that_is_too_small_for_a_worker_is_a_warning(
    found: Check, monkeypatch: pytest.MonkeyPatch, pool: object
) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", pool)

    message = found()["webhooks_app.W016"]
    assert "a worker process needs 4" in message.msg
    assert "at least 4" in str(message.hint)


@pytest.mark.parametrize(
    "pool", [None, False, True, {}, {"max_size": 4}, {"min_size": 2, "max_size": 10}, {"max_size": "4"}], ids=str
)
def test_other_pools_are_no_problem(found: Check, monkeypatch: pytest.MonkeyPatch, pool: object) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", pool)

    assert "webhooks_app.W016" not in found()


def test_the_checks_make_no_query(found: Check) -> None:
    # pytest-django forbids queries in tests without the database mark.
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


def test_a_secure_deployment_passes(found: Check) -> None:
    with override_settings(**DEPLOYED):
        assert found(deploy=True) == {}


@pytest.mark.parametrize(("values", "expected"), DEPLOYMENT)
def test_an_insecure_deployment_is_a_warning(found: Check, values: dict[str, Any], expected: str) -> None:
    with override_settings(**DEPLOYED | values):
        assert list(found(deploy=True)) == [f"webhooks_app.{expected}"]
        assert found() == {}


def test_loopback_is_allowed_in_development(found: Check) -> None:
    own_machine = {"DEBUG": True, "WEBHOOKS_ALLOW_HTTP": True, "WEBHOOKS_ALLOWED_NETWORKS": ["127.0.0.0/8"]}

    with override_settings(**DEPLOYED | own_machine):
        assert found(deploy=True) == {}


def test_a_file_based_cache_is_a_warning(found: Check, tmp_path: Path) -> None:
    in_files = {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": str(tmp_path)}

    with override_settings(**DEPLOYED | {"CACHES": {"default": in_files}}):
        messages = found(deploy=True)

    assert "concurrent requests" in messages["webhooks_app.W008"].msg


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that hides an installed app. Django cannot set up the others once more."""
    is_installed = apps.is_installed

    def without(app: str) -> None:
        monkeypatch.setattr(apps, "is_installed", lambda name: name != app and is_installed(name))

    return without


@pytest.mark.parametrize(
    ("app", "code"),
    [
        pytest.param("drf_spectacular_sidecar", "webhooks_app.W014", id="page"),
        pytest.param("rest_framework", "webhooks_app.W015", id="framework"),
    ],
)
def test_a_missing_app_of_the_api_is_a_warning_with_its_name(
    found: Check, without: Callable[[str], None], app: str, code: str
) -> None:
    assert code not in found()
    without(app)

    assert f'"{app}"' in str(found()[code].hint)


def test_without_the_api_in_the_urls_its_apps_are_not_required(
    found: Check, settings: Any, without: Callable[[str], None]
) -> None:
    settings.ROOT_URLCONF = "webhooks_app.probes.urls"
    without("rest_framework")

    assert "webhooks_app.W015" not in found()
