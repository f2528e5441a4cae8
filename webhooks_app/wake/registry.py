"""The wake-up that ``WEBHOOKS_WAKE`` chooses."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.db import router
from django.utils.module_loading import import_string

from ..conf import settings
from ..database.dialects import dialect_of
from ..models import Delivery
from .base import BaseWake

AUTO = "auto"

WAKES: Mapping[str, str] = {
    "celery": "webhooks_app.wake.celery.CeleryWake",
    "notify": "webhooks_app.wake.notify.NotifyWake",
    "django_tasks": "webhooks_app.wake.django_tasks.DjangoTasksWake",
    "none": "webhooks_app.wake.none.NoWake",
}


def configured_wake() -> BaseWake:
    """Return this process's instance. Raises ImportError for an invalid path."""
    return _instance(chosen_path())


def chosen_path() -> str:
    """Return the dotted path of the class."""
    name = str(settings.WAKE)  # the system checks report a value of another type
    return WAKES.get(_automatic() if name == AUTO else name, name)


def uses_celery() -> bool:
    """Return True if Celery wakes the workers, without importing it."""
    return chosen_path() == WAKES["celery"]


def _automatic() -> str:
    """Return "celery" if the host has configured a broker; otherwise the best choice for the database."""
    if has_broker():
        return "celery"
    return "notify" if dialect_of(router.db_for_write(Delivery)).can_notify else "none"


def has_broker() -> bool:
    """Return True if the host has imported Celery and configured a broker."""
    celery: Any = sys.modules.get("celery")  # imported by every host that configures it
    if celery is None:
        return False
    conf = celery.current_app.conf
    return bool(conf.task_always_eager or conf.broker_write_url or conf.broker_transport)


@cache
def _instance(path: str) -> BaseWake:
    wake: BaseWake = import_string(path)()
    return wake
