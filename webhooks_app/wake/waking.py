"""The configured wake-up, and the signal handler that calls it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import router

from ..conf import settings
from ..database.dialects import dialect_of
from ..implementations import Implementations
from ..models import Delivery
from .base import BaseWake

AUTO = "auto"

WAKES: Implementations[BaseWake] = Implementations(
    BaseWake,  # type: ignore[type-abstract]
    {
        "celery": "webhooks_app.wake.celery.CeleryWake",
        "notify": "webhooks_app.wake.base.NotifyWake",
        "django_tasks": "webhooks_app.wake.django_tasks.DjangoTasksWake",
        "none": "webhooks_app.wake.base.NoWake",
    },
)

_awake = 0
"""The number of blocks that wake workers although a test is running."""


def wake_workers(webhook_ids: Sequence[str] = (), **kwargs: Any) -> None:
    """Signal handler of ``deliveries_created``."""
    if not is_silent():
        configured_wake().wake(router.db_for_write(Delivery), webhook_ids)


def is_silent() -> bool:
    """Return True in tests set up by Django's and pytest-django's runners, except in ``waking_workers``."""
    if _awake:
        return False
    utils = sys.modules.get("django.test.utils")
    return hasattr(getattr(utils, "_TestState", None), "saved_data")


@contextmanager
def waking_workers() -> Iterator[None]:
    """Wake workers within this block, in all threads, although a test is running."""
    global _awake  # noqa: PLW0603 - of the whole process
    _awake += 1
    try:
        yield
    finally:
        _awake -= 1


def configured_wake() -> BaseWake:
    """Return this process's instance. Raises ValueError for an invalid path."""
    return WAKES.one(chosen_wake())


def chosen_wake() -> str:
    """Return the name or dotted path of the wake-up that ``WEBHOOKS_WAKE`` chooses."""
    name = str(settings.WAKE)  # the system checks report a value of another type
    name = _automatic() if name == AUTO else name
    return next((short for short, path in WAKES.built_in.items() if path == name), name)


def uses_celery() -> bool:
    """Return True if Celery wakes the workers, without importing it."""
    return chosen_wake() == "celery"


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
