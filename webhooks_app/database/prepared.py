"""Prepared statements for PostgreSQL. Planning a complex statement takes longer than executing it.

Django prepares no statements: client-side binding inserts the values into the text. ``PREPARE`` and ``EXECUTE`` are
plain SQL, so they work with psycopg 3, with psycopg2 and through Django's cursors.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from .dialects import dialect_for
from .sql import sqlstate

UNKNOWN_STATEMENT, EXISTING_STATEMENT = "26000", "42P05"
"""The SQLSTATEs of ``EXECUTE`` for a statement unknown to the session, for example after ``DISCARD ALL``, and of
``PREPARE`` for one that another driver connection prepared in the same session."""

UNPREPARED_SECONDS = 600.0
"""Time without prepared statements after such an error, which shows that sessions are shared or reset."""

BY_INDEX = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"
"""Makes plans follow the order of an index, because the plan of an empty table is still used for a large backlog. A
bitmap scan would read the whole backlog of a webhook for each claim."""

BY_ANY_PLAN = "SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL enable_bitmapscan TO DEFAULT"
"""For the other statements of the same transaction, whose plans are new."""

MAX_JOINED = 100
"""Executions in one round trip."""

_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names of the prepared statements by driver connection."""

_unprepared: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()
"""The number of executions of statements that are not prepared yet, by driver connection."""

_is_pooled: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Whether the session of a driver connection belongs to a pooler, if known."""

_unprepared_until: dict[str, float] = {}
"""The end of the time without prepared statements by alias (monotonic), because a reconnection would prepare again."""


class PreparedStatement:
    """A statement with named parameters, planned once per session.

    ``types`` contains the PostgreSQL type of each parameter. Connections that execute the statement no more than
    ``after`` times never prepare it. With ``by_index``, its plan has no sequential and no bitmap scans.
    """

    def __init__(self, sql: str, types: Mapping[str, str], *, after: int = 0, by_index: bool = True) -> None:
        numbers = {name: f"${number}" for number, name in enumerate(types, start=1)}
        text = re.sub(r"%\((\w+)\)s", lambda match: numbers[match[1]], sql).replace("%%", "%")
        self._sql = sql
        self._name = f"webhooks_app_{sha256(text.encode()).hexdigest()[:16]}"
        self._prepare = f"PREPARE {self._name} ({', '.join(types.values())}) AS {text}"
        self._execute = f"EXECUTE {self._name} ({', '.join(f'%({name})s' for name in types)})"
        self._after = after
        self._by_index = by_index

    def fetch(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute the statement, prepared if the session allows it, and return its rows."""
        connection.ensure_connection()
        if not self._can_prepare(connection):
            return self._fetch_unprepared(connection, values)
        try:
            return self._fetch_prepared(connection, values)
        except DatabaseError as error:
            if sqlstate(error) not in (UNKNOWN_STATEMENT, EXISTING_STATEMENT):
                raise
            _unprepared_until[connection.alias] = time.monotonic() + UNPREPARED_SECONDS
            _prepared.pop(connection.connection, None)
            if connection.in_atomic_block:  # aborted by the error
                raise
            return self._fetch_unprepared(connection, values)

    def fetch_each(
        self, connection: BaseDatabaseWrapper, values: Sequence[Mapping[str, Any]]
    ) -> list[list[tuple[Any, ...]]]:
        """Execute the statement for each of these values, and return the rows of each execution.

        Call it after ``fetch`` in the same transaction. Once the statement is prepared, psycopg 3 needs one round trip.
        """
        found: list[list[tuple[Any, ...]]] = []
        can_join = dialect_for(connection).uses_psycopg3(connection.alias)
        while left := values[len(found) :]:
            if can_join and self._name in _prepared.get(connection.connection, ()):
                found += self._fetch_joined(connection, left[:MAX_JOINED])
            else:
                found.append(self.fetch(connection, left[0]))
        return found

    def _fetch_joined(
        self, connection: BaseDatabaseWrapper, values: Sequence[Mapping[str, Any]]
    ) -> list[list[tuple[Any, ...]]]:
        found = []
        with connection.cursor() as cursor:
            cursor.execute("; ".join(cursor.mogrify(self._execute, each) for each in values))
            for _ in values:
                found.append(_rows(cursor))
                cursor.nextset()
        return found

    def _fetch_prepared(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        names = _prepared.setdefault(connection.connection, set())
        with connection.cursor() as cursor:
            if self._name not in names:
                cursor.execute(self._prepare)
                names.add(self._name)
            # psycopg2 has only the last result, so nothing can follow there.
            has_results = self._by_index and dialect_for(connection).uses_psycopg3(connection.alias)
            before = f"{BY_INDEX}; " if self._by_index else ""
            after = f"; {BY_ANY_PLAN}" if has_results and connection.in_atomic_block else ""
            cursor.execute(f"{before}{self._execute}{after}", values)
            if has_results:
                cursor.nextset()
            return _rows(cursor)

    def _fetch_unprepared(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(self._sql, values)
            return _rows(cursor)

    def _can_prepare(self, connection: BaseDatabaseWrapper) -> bool:
        """Return False behind a pooler, for server-side binding, after errors, and for few executions.

        ``EXECUTE`` accepts no parameters of server-side binding. The transaction of a caller, which is a nested atomic
        block, has its own planner settings.
        """
        options = connection.settings_dict
        if options.get("DISABLE_SERVER_SIDE_CURSORS") or options["OPTIONS"].get("server_side_binding"):
            return False
        if self._by_index and connection.savepoint_ids:
            return False
        if time.monotonic() < _unprepared_until.get(connection.alias, 0.0):
            return False
        if self._after and self._name not in _prepared.get(connection.connection, ()):
            counts = _unprepared.setdefault(connection.connection, Counter())
            counts[self._name] += 1
            if counts[self._name] <= self._after:
                return False
        return not _is_behind_pooler(connection)


@lru_cache(maxsize=64)
def prepared(sql: str, types: tuple[tuple[str, str], ...]) -> PreparedStatement:
    """Return the prepared form of a statement. ``types`` are pairs of a parameter and its type."""
    return PreparedStatement(sql, dict(types))


def _is_behind_pooler(connection: BaseDatabaseWrapper) -> bool:
    """Return True if the driver's process ID of the session, from the start of the connection, is not the server's."""
    driver = connection.connection
    if driver not in _is_pooled:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            _is_pooled[driver] = cursor.fetchone()[0] != driver.info.backend_pid
    return _is_pooled[driver]


def _rows(cursor: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
    return rows
