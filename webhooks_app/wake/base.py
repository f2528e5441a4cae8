"""The contract of a wake-up, and the choice of one.

The signal handler ``wake_workers`` calls the one that ``WEBHOOKS_WAKE`` chooses.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from django.conf import settings as django_settings
from django.core import mail
from django.db import router

from ..conf import settings
from ..database.dialects import dialect_of
from ..implementations import Implementations
from ..models import Delivery

AUTO = "auto"

_with_broker: WeakSet[Any] = WeakSet()
"""Celery's apps that have a broker, because reading their configuration takes time in each commit."""

_awake = 0
"""The number of blocks that wake workers although a test is running."""


class BaseWake(ABC):
    """Wakes workers after a commit. Each process has one instance.

    A wake-up carries no state. If one is lost, a running engine finds the due deliveries with its next sweep. Workers
    without a running engine find them with the next wake-up.
    """

    @abstractmethod
    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        """Wake workers of the database ``using`` for due deliveries of these webhooks, or of any if none is named.

        Called after each commit in the committing thread, so it must not block. Exceptions are logged.
        """


class NoWake(BaseWake):
    """Does nothing: workers find due deliveries by themselves."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        """Do nothing."""


WAKES: Implementations[BaseWake] = Implementations(
    BaseWake,  # type: ignore[type-abstract]
    {
        "celery": "webhooks_app.wake.celery.CeleryWake",
        "notify": "webhooks_app.wake.messages.NotifyWake",
        "django_tasks": "webhooks_app.wake.django_tasks.DjangoTasksWake",
        "none": "webhooks_app.wake.base.NoWake",
    },
)


def wake_workers(webhook_ids: Sequence[str] = (), **kwargs: Any) -> None:
    """Signal handler of ``deliveries_created``."""
    if not is_silent():
        configured_wake().wake(router.db_for_write(Delivery), webhook_ids)


def is_silent() -> bool:
    """Return True in the test environment of Django and pytest-django, except in ``waking_workers``.

    ``setup_test_environment`` keeps mails in ``django.core.mail.outbox`` and allows the host ``testserver``. A project
    that keeps its mails in memory during development has only the first.
    """
    return not _awake and hasattr(mail, "outbox") and "testserver" in django_settings.ALLOWED_HOSTS


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
    """Return this process's instance. Raise ValueError for an invalid path."""
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
    app = celery.current_app._get_current_object()  # noqa: SLF001 - of Celery's proxy
    if app in _with_broker:
        return True
    if app.conf.broker_write_url or app.conf.broker_transport:
        _with_broker.add(app)
        return True
    return bool(app.conf.task_always_eager)
