"""Checks of what we stand on: Celery, the broker, the database, the host's settings."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution, requires
from typing import Any

from celery import current_app
from django.apps import apps
from django.conf import settings as django_settings
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections, router

from ..models import Delivery
from .settings import TAG

SWEEP_TASK = "webhooks_app.deliver_due"
REDIS_SCHEMES = ("redis", "rediss", "sentinel")


@checks.register(TAG)
def check_time_zones(**kwargs: Any) -> list[checks.CheckMessage]:
    if django_settings.USE_TZ:
        return []
    return [
        checks.Error(
            "USE_TZ is False: without time zones nobody knows when an event occurred or a retry is due.",
            hint="Set USE_TZ = True, which is Django's default.",
            id="webhooks_app.E012",
        )
    ]


@checks.register(TAG)
def check_router(**kwargs: Any) -> list[checks.CheckMessage]:
    using = router.db_for_write(Delivery)
    if using == DEFAULT_DB_ALIAS:
        return []
    return [
        checks.Error(
            f"A database router sends this app's tables to {using!r}: events could not be written in the transaction "
            "of what they tell of.",
            hint=f"Let webhooks_app and the accounts live in the database {DEFAULT_DB_ALIAS!r}.",
            id="webhooks_app.E013",
        )
    ]


@checks.register(TAG)
def check_eager_tasks(**kwargs: Any) -> list[checks.CheckMessage]:
    if not current_app.conf.task_always_eager:
        return []
    return [
        checks.Warning(
            "Celery runs tasks eagerly: whoever emits an event waits until all webhooks have answered, "
            "and retries wait for the next event.",
            hint="Unset CELERY_TASK_ALWAYS_EAGER outside of tests; tests have the fixture `webhooks` instead.",
            id="webhooks_app.W002",
        )
    ]


@checks.register(TAG)
def check_beat(**kwargs: Any) -> list[checks.CheckMessage]:
    """Find a schedule without the sweep. One in the database is not looked at: checks make no queries."""
    if apps.is_installed("django_celery_beat"):
        return []
    entries = (current_app.conf.beat_schedule or {}).values()
    if any(entry.get("task") == SWEEP_TASK for entry in entries):
        return []
    return [
        checks.Warning(
            f"Celery's beat schedule has no entry for {SWEEP_TASK}: what a lost wake-up missed waits for the next one.",
            hint="Merge webhooks_app.beat.BEAT_SCHEDULE into CELERY_BEAT_SCHEDULE, and import your Celery app in your "
            "project's __init__.py. Silence this where `manage.py deliver_webhooks` runs instead of Celery.",
            id="webhooks_app.W003",
        )
    ]


@checks.register(TAG)
def check_redis(**kwargs: Any) -> list[checks.CheckMessage]:
    if not _broker_schemes().intersection(REDIS_SCHEMES):
        return []
    missing = [name for name in _required_for_redis() if not _is_installed(name)]
    if not missing:
        return []
    return [
        checks.Error(
            f"Celery's broker is Redis, but {', '.join(missing)} cannot be found: nothing could be published.",
            hint="Install django-webhooks-app[redis], which is celery[redis]; the package redis alone is not enough.",
            id="webhooks_app.E011",
        )
    ]


@checks.register(TAG)
def check_sqlite(**kwargs: Any) -> list[checks.CheckMessage]:
    connection = connections[DEFAULT_DB_ALIAS]
    mode = str(connection.settings_dict.get("OPTIONS", {}).get("transaction_mode", ""))
    if connection.vendor != "sqlite" or mode.upper() in ("IMMEDIATE", "EXCLUSIVE"):
        return []
    return [
        checks.Warning(
            "The SQLite database begins transactions for reading: one that goes on to write while a worker "
            'does fails at once with "database is locked".',
            hint='Set DATABASES["default"]["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 20}.',
            id="webhooks_app.W004",
        )
    ]


def _broker_schemes() -> set[str]:
    conf: Any = current_app.conf
    found: list[str] = []
    for urls in (conf.broker_url, conf.broker_write_url):
        found += urls if isinstance(urls, list | tuple) else str(urls or "").split(";")
    return {url.partition(":")[0] for url in found}


def _required_for_redis() -> set[str]:
    """Return the packages that Celery's messaging library wants for Redis."""
    wanted = [line for line in requires("kombu") or () if re.search(r"extra\s*==\s*['\"]redis['\"]", line)]
    return {"redis", *(re.split(r"[^A-Za-z0-9._-]", line)[0] for line in wanted)}


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
