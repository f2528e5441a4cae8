"""Background tasks for rows, tolerant of an unavailable broker."""

from __future__ import annotations

import logging
from typing import Any

from celery import Task
from django.db import models, transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger("example_project")


def work_soon(task: Task[Any, Any], row: models.Model) -> None:
    """Run the task for a row in a worker after the transaction commits.

    If the broker is unavailable, a periodic task finds the row later.
    """
    transaction.on_commit(lambda: send(task, row))


def send(task: Task[Any, Any], row: models.Model) -> None:
    """Send the task now. Log a warning if the broker is unavailable."""
    try:
        task.apply_async((row.pk,), retry=False)
    except OperationalError as error:
        logger.warning("The broker is unavailable; %s waits for the periodic task (%s).", row.pk, error)
