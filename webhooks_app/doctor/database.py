"""Examination of the database: its tables, its clock and the stored secrets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.conf import settings as django_settings
from django.core import checks
from django.db import DatabaseError, InterfaceError, connections, router
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import gettext as _

from ..database.clock import DatabaseClock
from ..database.dialects import dialect_of
from ..models import Delivery
from .configuration import messages_of, of_app, of_check
from .findings import Finding, fail, ok, warn

KEYS_CHECK = "webhooks_app.W009"

CLOCK_WARNING, CLOCK_ERROR = timedelta(seconds=2), timedelta(seconds=60)
"""Receivers reject signatures with a time that is minutes off. Smaller differences make the log misleading."""


def examine_database(name: str) -> Iterator[Finding]:
    connection = connections[database_alias()]
    try:
        executor = MigrationExecutor(connection)
    except (DatabaseError, InterfaceError) as error:
        found = _("The database does not answer: %(error)s") % {"error": str(error).strip()}
        yield fail(name, found, _("Start it, or fix DATABASES."))
        return
    leaves = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "webhooks_app"]
    if executor.migration_plan(leaves):
        yield fail(name, _("The tables do not match this version."), _("Run `manage.py migrate webhooks_app`."))
    else:
        found = _("%(database)s (%(alias)s) answers and has the tables.")
        yield ok(name, found % {"database": connection.display_name, "alias": connection.alias})


def examine_clock(name: str) -> Iterator[Finding]:
    """Compare this machine's clock, which signatures use, with that of the database, which due times use."""
    if dialect_of(database_alias()).now_sql is None:
        found = _("%(database)s uses this machine's clock.")
        yield ok(name, found % {"database": connections[database_alias()].display_name})
        return
    asked, started = datetime.now(UTC), time.monotonic()
    database = DatabaseClock(database_alias())()
    took = timedelta(seconds=time.monotonic() - started)
    ahead = max(timedelta(), abs(asked + took / 2 - database) - took / 2)
    found = _("This machine and the database are %(seconds).1f s apart.") % {"seconds": ahead.total_seconds()}
    hint = _("Synchronize both clocks by NTP: receivers reject signatures with a time that is minutes off.")
    if ahead <= CLOCK_WARNING:
        yield ok(name, found)
    else:
        yield (warn if ahead <= CLOCK_ERROR else fail)(name, found, hint)


def examine_keys(name: str) -> Iterator[Finding]:
    """Yield the messages of this app's checks of the database, which `migrate` runs. One decrypts stored secrets."""
    messages = of_app(messages_of(checks.Tags.database, databases=[database_alias()]))
    for message in messages:
        is_about_keys = message.id == KEYS_CHECK
        yield fail(name, str(message.msg), str(message.hint)) if is_about_keys else of_check(message)
    if KEYS_CHECK in django_settings.SILENCED_SYSTEM_CHECKS:
        yield ok(name, _("The stored secrets are not examined: %(check)s is silenced.") % {"check": KEYS_CHECK})
    elif not any(message.id == KEYS_CHECK for message in messages):
        yield ok(name, _("The encryption keys decrypt the stored secrets."))


def database_alias() -> str:
    return router.db_for_write(Delivery)
