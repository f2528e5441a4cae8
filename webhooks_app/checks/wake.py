"""Checks of the wake-up of workers. The checks of Celery apply only if Celery wakes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution, requires
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import DatabaseError, connections, router
from django.utils.module_loading import import_string
from django.utils.translation import gettext, gettext_lazy

from ..conf import BEAT_TAG, CHECKS_TAG, settings
from ..database.dialects import dialect_for
from ..models import Delivery
from ..wake.base import chosen_wake, has_broker, uses_celery
from .registration import register
from .settings import problem_with

SWEEP_TASK, PRUNE_TASK = "webhooks_app.deliver_due", "webhooks_app.prune"
BEAT_TASKS = (SWEEP_TASK, PRUNE_TASK)
PURPOSES = {
    SWEEP_TASK: gettext_lazy("%(task)s, which finds deliveries whose wake-up was lost"),
    PRUNE_TASK: gettext_lazy("%(task)s, which deletes old rows"),
}
REDIS_SCHEMES = ("redis", "rediss", "sentinel")
TASK_BACKENDS_WITHOUT_WORKER = ("ImmediateBackend", "DummyBackend")


@register(CHECKS_TAG)
def check_notify(**kwargs: Any) -> list[checks.CheckMessage]:
    if chosen_wake() != "notify":
        return []
    connection = connections[router.db_for_write(Delivery)]
    if dialect_for(connection).can_notify:
        return []
    return [
        checks.Error(
            gettext("WEBHOOKS_WAKE is 'notify', but %(system)s has no NOTIFY.") % {"system": connection.display_name},
            hint=gettext("Set it to 'none': `manage.py deliver_webhooks` then polls the database."),
            id="webhooks_app.E021",
        )
    ]


@register(CHECKS_TAG)
def check_task_backend(**kwargs: Any) -> list[checks.CheckMessage]:
    if chosen_wake() != "django_tasks" or problem_with("WAKE"):
        return []
    backend = import_string("webhooks_app.wake.django_tasks.deliver_due").get_backend()
    if type(backend).__name__ not in TASK_BACKENDS_WITHOUT_WORKER:
        return []
    return [
        checks.Warning(
            gettext("WEBHOOKS_WAKE is 'django_tasks', but %(name)s, the default of TASKS, has no workers.")
            % {"name": type(backend).__name__},
            hint=gettext(
                "Choose a backend with workers, or remove WEBHOOKS_WAKE and run `manage.py deliver_webhooks`."
            ),
            id="webhooks_app.W012",
        )
    ]


@register(CHECKS_TAG)
def check_eager_tasks(**kwargs: Any) -> list[checks.CheckMessage]:
    if not uses_celery() or not _celery_conf().task_always_eager:
        return []
    return [
        checks.Warning(
            gettext(
                "Celery runs tasks eagerly: emit() blocks until every receiver has answered, and retries wait for the "
                "next event."
            ),
            hint=gettext("Remove CELERY_TASK_ALWAYS_EAGER. Tests do not need it, because they wake no workers."),
            id="webhooks_app.W002",
        )
    ]


@register(CHECKS_TAG)
def check_broker(**kwargs: Any) -> list[checks.CheckMessage]:
    if settings.WAKE != "celery" or has_broker():
        return []
    return [
        checks.Warning(
            gettext(
                "WEBHOOKS_WAKE is 'celery', but no broker is configured. Celery then tries amqp://guest@localhost."
            ),
            hint=gettext(
                "Set CELERY_BROKER_URL and import your Celery app in your project's __init__.py, or remove "
                "WEBHOOKS_WAKE and run `manage.py deliver_webhooks`."
            ),
            id="webhooks_app.W013",
        )
    ]


@register(CHECKS_TAG, BEAT_TAG)
def check_beat(**kwargs: Any) -> list[checks.CheckMessage]:
    """Return a warning if the schedule has no entries of this app, unless the schedule may be in the database."""
    if not uses_celery() or apps.is_installed("django_celery_beat"):
        return []
    return _beat_warning(task for task in BEAT_TASKS if task not in _tasks_in_settings())


@register(checks.Tags.database, BEAT_TAG)
def check_beat_in_database(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Return a warning for entries that django-celery-beat's table disables or lacks.

    Beat copies those that it lacks from the settings, and enables none.
    """
    if not uses_celery() or not apps.is_installed("django_celery_beat"):
        return []
    entries: Any = apps.get_model("django_celery_beat", "PeriodicTask")
    if router.db_for_read(entries) not in (databases or ()):
        return []
    try:
        found = list(entries.objects.filter(task__in=BEAT_TASKS).values_list("task", "enabled"))
    except DatabaseError:  # `migrate` creates the table.
        return []
    copied = _tasks_in_settings() - {task for task, _ in found}
    enabled = {task for task, is_enabled in found if is_enabled}
    return _beat_warning(task for task in BEAT_TASKS if task not in enabled | copied)


def _beat_warning(tasks: Iterable[str]) -> list[checks.CheckMessage]:
    missing = [str(PURPOSES[task]) % {"task": task} for task in tasks]
    if not missing:
        return []
    return [
        checks.Warning(
            gettext("Celery's beat schedule has no enabled entry for %(missing)s.")
            % {"missing": gettext(", nor for ").join(missing)},
            hint=gettext(
                "Merge webhooks_app.beat.BEAT_SCHEDULE into CELERY_BEAT_SCHEDULE, and import your Celery app in your "
                "project's __init__.py. With django-celery-beat, enable its entry in the admin. "
                "If `manage.py deliver_webhooks` delivers instead of Celery, set "
                "WEBHOOKS_WAKE to 'notify' on PostgreSQL, otherwise to 'none'."
            ),
            id="webhooks_app.W003",
        )
    ]


def _tasks_in_settings() -> set[str]:
    return {str(entry.get("task")) for entry in (_celery_conf().beat_schedule or {}).values()}


@register(CHECKS_TAG)
def check_redis(**kwargs: Any) -> list[checks.CheckMessage]:
    if not uses_celery() or not _broker_schemes().intersection(REDIS_SCHEMES):
        return []
    missing = [name for name in _required_for_redis() if not _is_installed(name)]
    if not missing:
        return []
    return [
        checks.Error(
            gettext("Celery's broker is Redis, but %(packages)s cannot be found: no message can be sent.")
            % {"packages": ", ".join(missing)},
            hint=gettext(
                'Run: pip install "django-webhooks-app[redis]" (this installs celery[redis]; the package redis alone '
                "is not enough)."
            ),
            id="webhooks_app.E011",
        )
    ]


def _celery_conf() -> Any:
    from celery import current_app  # noqa: PLC0415 - only if the project uses Celery

    return current_app.conf


def _broker_schemes() -> set[str]:
    conf = _celery_conf()
    found: list[str] = []
    for urls in (conf.broker_url, conf.broker_write_url):
        found += urls if isinstance(urls, list | tuple) else str(urls or "").split(";")
    return {url.partition(":")[0] for url in found}


def _required_for_redis() -> set[str]:
    """Return the packages that Celery's messaging library requires for Redis."""
    wanted = [line for line in requires("kombu") or () if re.search(r"extra\s*==\s*['\"]redis['\"]", line)]
    return {"redis", *(re.split(r"[^A-Za-z0-9._-]", line)[0] for line in wanted)}


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
