"""The conditions of the health endpoints. Each returns True if it holds."""

from __future__ import annotations

from datetime import timedelta

from django.db import connections, router
from django.db.migrations.executor import MigrationExecutor

from ..conf import settings
from ..database.clock import DatabaseClock
from ..delivery.sql import oldest_due_at
from ..models import Delivery, WorkerProcess

OVERDUE = timedelta(minutes=5)


def has_tables() -> bool:
    """Return True if the database answers and has the tables of this version."""
    executor = MigrationExecutor(connections[_using()])
    leaves = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "webhooks_app"]
    return not executor.migration_plan(leaves)


def has_workers() -> bool:
    """Return True if a worker has reported itself within a minute."""
    return WorkerProcess.objects.using(_using()).running().exists()


def is_punctual() -> bool:
    """Return True unless a sendable delivery has been due for 5 minutes."""
    now = DatabaseClock(_using())()
    due_at = oldest_due_at(_using(), now)
    return due_at is None or now - due_at < max(OVERDUE, timedelta(seconds=3 * settings.SWEEP_SECONDS))


def _using() -> str:
    return router.db_for_write(Delivery)
