"""Telling a worker that a row waits for it."""

from __future__ import annotations

import logging
from typing import Any

from celery import Task
from django.db import models, transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger("example_project")


def work_soon(task: Task[Any, Any], row: models.Model) -> None:
    """Have a worker run the task for a row, once the transaction commits.

    Where the broker is away the row only waits longer: a periodic task looks for rows that nobody was told of.
    """
    transaction.on_commit(lambda: send(task, row))


def send(task: Task[Any, Any], row: models.Model) -> None:
    """Tell a worker now, and make do where the broker is away."""
    try:
        task.apply_async((row.pk,), retry=False)
    except OperationalError as error:
        logger.warning("No worker can be told of %s (%s); it waits.", row.pk, error)
