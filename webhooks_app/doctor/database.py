"""Examination of the database: its tables, its clock and the stored secrets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.core import checks
from django.db import DatabaseError, InterfaceError, connections, router
from django.db.migrations.executor import MigrationExecutor

from ..database.clock import DatabaseClock
from ..database.dialects import dialect_of
from ..models import Delivery
from .findings import Finding, fail, ok, warn

KEYS_CHECK = "webhooks_app.W009"

CLOCK_WARNING, CLOCK_ERROR = timedelta(seconds=2), timedelta(seconds=60)
"""Receivers reject signatures with a time that is minutes off. Smaller differences make the log misleading."""


def examine_database(name: str) -> Iterator[Finding]:
    connection = connections[database_alias()]
    try:
        executor = MigrationExecutor(connection)
    except (DatabaseError, InterfaceError) as error:
        yield fail(name, f"The database does not answer: {str(error).strip()}", "Start it, or fix DATABASES.")
        return
    leaves = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "webhooks_app"]
    if executor.migration_plan(leaves):
        yield fail(name, "The tables do not match this version.", "Run `manage.py migrate webhooks_app`.")
    else:
        yield ok(name, f"{connection.display_name} ({connection.alias}) answers and has the tables.")


def examine_clock(name: str) -> Iterator[Finding]:
    """Compare this machine's clock, which signatures use, with that of the database, which due times use."""
    if dialect_of(database_alias()).now_sql is None:
        yield ok(name, f"{connections[database_alias()].display_name} uses this machine's clock.")
        return
    asked, started = datetime.now(UTC), time.monotonic()
    database = DatabaseClock(database_alias())()
    took = timedelta(seconds=time.monotonic() - started)
    ahead = max(timedelta(), abs(asked + took / 2 - database) - took / 2)
    found = f"This machine and the database are {ahead.total_seconds():.1f} s apart."
    hint = "Synchronize both clocks by NTP: receivers reject signatures with a time that is minutes off."
    if ahead <= CLOCK_WARNING:
        yield ok(name, found)
    else:
        yield (warn if ahead <= CLOCK_ERROR else fail)(name, found, hint)


def examine_keys(name: str) -> Iterator[Finding]:
    """Decrypt the secrets of the oldest and the newest webhooks, by the system check that `migrate` runs."""
    messages = checks.run_checks(tags=[checks.Tags.database], databases=[database_alias()])
    unreadable = [message for message in messages if message.id == KEYS_CHECK]
    yield from (fail(name, str(message.msg), str(message.hint)) for message in unreadable)
    if not unreadable:
        yield ok(name, "The encryption keys decrypt the stored secrets.")


def database_alias() -> str:
    return router.db_for_write(Delivery)
