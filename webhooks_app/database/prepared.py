"""Prepared statements for PostgreSQL. Planning a complex statement takes longer than executing it.

Django prepares no statements: client-side binding inserts the values into the text. ``PREPARE`` and ``EXECUTE`` are
plain SQL, so they work with psycopg 3, with psycopg2 and through Django's cursors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from .dialects import dialect_for

UNKNOWN_STATEMENT = "26000"
"""The SQLSTATE of ``EXECUTE`` for a statement unknown to the session: the session belongs to a pooler."""

BY_INDEX = "SET LOCAL enable_seqscan = off"
"""Prevents sequential scans, because the plan of an empty table is still used for a large backlog."""

BY_ANY_PLAN = "SET LOCAL enable_seqscan TO DEFAULT"
"""For the other statements of the same transaction, whose plans are new."""

_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names of the prepared statements by driver connection."""

_unfit: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""The driver connections with shared sessions."""


class PreparedStatement:
    """A statement with named parameters, planned once per session.

    ``types`` contains the PostgreSQL type of each parameter.
    """

    def __init__(self, sql: str, types: Mapping[str, str]) -> None:
        numbers = {name: f"${number}" for number, name in enumerate(types, start=1)}
        text = re.sub(r"%\((\w+)\)s", lambda match: numbers[match[1]], sql).replace("%%", "%")
        self._sql = sql
        self._name = f"webhooks_app_{sha256(text.encode()).hexdigest()[:16]}"
        self._prepare = f"PREPARE {self._name} ({', '.join(types.values())}) AS {text}"
        self._execute = f"{BY_INDEX}; EXECUTE {self._name} ({', '.join(f'%({name})s' for name in types)})"

    def fetch(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute the statement, prepared if the session allows it, and return its rows."""
        connection.ensure_connection()
        if not _can_prepare(connection):
            return self._fetch_unprepared(connection, values)
        try:
            return self._fetch_prepared(connection, values)
        except DatabaseError as error:
            if _sqlstate(error) != UNKNOWN_STATEMENT:
                raise
            _unfit[connection.connection] = True
            if connection.in_atomic_block:  # aborted by the error
                raise
            return self._fetch_unprepared(connection, values)

    def _fetch_prepared(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        names = _prepared.setdefault(connection.connection, set())
        with connection.cursor() as cursor:
            if self._name not in names:
                cursor.execute(self._prepare)
                names.add(self._name)
            if not dialect_for(connection).uses_psycopg3(connection.alias):
                cursor.execute(self._execute, values)  # psycopg2 has only the last result
                return _rows(cursor)
            after = f"; {BY_ANY_PLAN}" if connection.in_atomic_block else ""
            cursor.execute(f"{self._execute}{after}", values)
            cursor.nextset()
            return _rows(cursor)

    def _fetch_unprepared(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(self._sql, values)
            return _rows(cursor)


@lru_cache(maxsize=64)
def prepared(sql: str, types: tuple[tuple[str, str], ...]) -> PreparedStatement:
    """Return the prepared form of a statement. ``types`` are pairs of a parameter and its type."""
    return PreparedStatement(sql, dict(types))


def _can_prepare(connection: BaseDatabaseWrapper) -> bool:
    """Return False for a pooler in transaction mode, for server-side binding and in a nested atomic block.

    ``EXECUTE`` accepts no parameters of server-side binding. A caller's transaction has its own planner settings.
    """
    options = connection.settings_dict
    is_shared = options.get("DISABLE_SERVER_SIDE_CURSORS") or connection.connection in _unfit
    return not (is_shared or options["OPTIONS"].get("server_side_binding") or connection.savepoint_ids)


def _rows(cursor: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
    return rows


def _sqlstate(error: DatabaseError) -> str | None:
    cause: Any = error.__cause__
    return getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
