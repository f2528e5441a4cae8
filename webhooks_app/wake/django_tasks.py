"""Wake-ups by Django's task framework, or its backport django-tasks."""

from __future__ import annotations

try:
    from django.tasks import task
except ImportError:  # before Django 6.0
    from django_tasks import task  # type: ignore[no-redef,assignment,unused-ignore]

from .engine_thread import deliver_in_background
from .messages import BaseMessageWake


@task
def deliver_due() -> None:
    """Start or wake the engine of the worker that runs this task."""
    deliver_in_background()


class DjangoTasksWake(BaseMessageWake):
    """Enqueues a task in the default backend, whose worker must be a long-lived process."""

    def send(self) -> None:
        deliver_due.enqueue()
