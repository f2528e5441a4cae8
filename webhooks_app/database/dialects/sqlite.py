"""SQLite: a single writer, and the local machine's clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from .base import BaseDialect, TableEstimate


class SqliteDialect(BaseDialect):
    name = "sqlite"
    systems = ("SQLite",)
    has_single_writer = True
    lock_timeout_codes = frozenset({sqlite3.SQLITE_BUSY})

    def begins_by_reading(self, connection: BaseDatabaseWrapper) -> bool:
        """Return True for SQLite's default, a deferred transaction."""
        mode = str(connection.settings_dict.get("OPTIONS", {}).get("transaction_mode", ""))
        return mode.upper() not in ("IMMEDIATE", "EXCLUSIVE")

    def begin_write(self, connection: BaseDatabaseWrapper, model: type[models.Model]) -> None:
        """Run an UPDATE without effect.

        SQLite aborts a transaction that reads first and writes later if another one has written in between.
        """
        names = (model._meta.db_table, str(model._meta.pk.column))
        table, key = (connection.ops.quote_name(name) for name in names)
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {key} = {key} WHERE 0 = 1")

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return the range of row numbers, which includes deleted rows. Sizes are not available."""
        span = "SELECT '{0}', coalesce((SELECT max(rowid) FROM {1}) - (SELECT min(rowid) FROM {1}) + 1, 0), NULL"
        parts = [span.format(table, connection.ops.quote_name(table)) for table in tables]
        return self._estimates(connection, " UNION ALL ".join(parts))
