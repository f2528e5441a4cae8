"""Differences between database systems: one dialect class for each of Django's vendors."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

SQLITE_BUSY = 5
"""The value of ``sqlite3.SQLITE_BUSY``. Importing ``sqlite3`` would take memory in processes on other databases."""


class TableEstimate(NamedTuple):
    """A table's approximate size. None means that the database does not provide the figure."""

    rows: int | None
    size: int | None
    """Bytes, including all indexes."""


class Session(NamedTuple):
    """A connection's identity on the server. A process number alone may be reused."""

    pid: int
    started_at: datetime


class BaseDialect:
    """The differences of one database system. Instances have no state, so all connections share one."""

    name: ClassVar[str] = ""
    """Django's ``vendor``. MySQL and MariaDB have the same."""

    systems: ClassVar[Sequence[str]] = ()
    """The systems of this vendor, as shown to users."""

    id_column: ClassVar[str] = "char(32)"
    """The column type of a public identifier. It must sort by bytes, in the order of creation."""

    now_sql: ClassVar[str | None] = None
    """SQL for the server's time in microseconds, in UTC or with a time zone. None for the local machine's time."""

    no_operation_sql: ClassVar[str] = "SELECT 1"
    """A statement without effect, for migration operations that do not apply."""

    can_notify: ClassVar[bool] = False
    """Whether NOTIFY reaches other connections that LISTEN."""

    has_lateral_joins: ClassVar[bool] = False
    """Whether subqueries in FROM can refer to preceding rows and have their own LIMIT. Arrays can be such rows."""

    has_single_writer: ClassVar[bool] = False
    """Whether a writing transaction excludes all other writers. Rows have no locks."""

    loose_text_column: ClassVar[str] = ""
    """Type of a column for short text without a limit; empty for the type with a limit."""

    inserts_in_with: ClassVar[bool] = False
    """Whether a WITH clause can contain an INSERT, so that one statement fills two tables."""

    generates_rows: ClassVar[bool] = False
    """Whether test data can be generated in the database, with ``generate_series`` and JSON."""

    deadlock_codes: ClassVar[frozenset[object]] = frozenset()
    """The SQLSTATEs or error numbers of a transaction that was rolled back in favour of another one."""

    lock_timeout_codes: ClassVar[frozenset[object]] = frozenset()
    """The SQLSTATEs or error numbers of a statement that waited for a lock too long."""

    def next_number_sql(self, table: str) -> str | None:
        """Return an expression for the next key of a table, whose name is quoted; None if only an INSERT makes one.

        Transactions that follow each other get ascending numbers, and a number is never made twice.
        """
        return None

    def to_db_id(self, digits: str) -> object:
        """Return the parameter for the 32 hexadecimal digits of an identifier."""
        return digits

    def uses_psycopg3(self, using: str) -> bool:
        """Return True if the driver is psycopg 3."""
        return False

    def can_listen(self, using: str) -> bool:
        """Return True if a connection can wait for notifications."""
        return False

    def begins_by_reading(self, connection: BaseDatabaseWrapper) -> bool:
        """Return True if a transaction cannot wait for another writer after its first read."""
        return False

    def begin_write(self, connection: BaseDatabaseWrapper, model: type[models.Model]) -> None:
        """Take the write lock of a database without row locks."""

    @contextmanager
    def waiting_at_most(self, connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
        """Limit the time that each statement in the block, within a transaction, waits for a lock.

        Without row locks, the connection's own timeout applies.
        """
        yield

    def session_of(self, connection: BaseDatabaseWrapper) -> Session | None:
        """Return the session of a connection, or None if other connections cannot detect its end."""
        return None

    def has_session(self, connection: BaseDatabaseWrapper, session: Session) -> bool:
        """Return True unless the session has certainly ended."""
        return True

    def uptime_seconds(self, connection: BaseDatabaseWrapper) -> float:
        """Return the server's uptime, or infinity if it is unknown."""
        return math.inf

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return estimates by table name, from one query without counting."""
        return {}

    def fillfactor_sql(self, table: str, percent: int) -> Sequence[str]:
        """Return the statements that reserve space on a table's pages. The table name is already quoted."""
        return ()

    def analyze(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> None:
        """Update the planner's statistics after the insertion of many rows, if they would otherwise remain outdated."""

    @staticmethod
    def _estimates(
        connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any] | None = None
    ) -> dict[str, TableEstimate]:
        """Return the estimates from a query for the name, rows and size of each table."""
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return {name: TableEstimate(_whole(rows), _whole(size)) for name, rows, size in cursor.fetchall()}


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)


class MysqlDialect(BaseDialect):
    """Uses ``char(32)`` for ``id_column``: MariaDB's UUID type does not sort by bytes, and MySQL has none."""

    name = "mysql"
    systems = ("MySQL", "MariaDB")
    now_sql = "UTC_TIMESTAMP(6)"
    no_operation_sql = "DO 0"
    deadlock_codes = frozenset({1213})
    lock_timeout_codes = frozenset({1205})

    @contextmanager
    def waiting_at_most(self, connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
            (before,) = cursor.fetchone()
            cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [math.ceil(seconds)])
            try:
                yield
            finally:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [before])

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return InnoDB's sampled statistics."""
        sql = """
            SELECT table_name, table_rows, data_length + index_length
            FROM information_schema.tables WHERE table_schema = database() AND table_name IN %s"""
        return self._estimates(connection, sql, [tuple(tables)])


class SqliteDialect(BaseDialect):
    name = "sqlite"
    systems = ("SQLite",)
    has_single_writer = True
    lock_timeout_codes = frozenset({SQLITE_BUSY})

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


class PostgresqlDialect(BaseDialect):
    name = "postgresql"
    systems = ("PostgreSQL",)
    id_column = "uuid"
    now_sql = "statement_timestamp()"
    can_notify = True
    has_lateral_joins = True
    inserts_in_with = True
    # Without statistics, the planner estimates the width of a row by the limits of its columns.
    loose_text_column = "text"
    generates_rows = True
    deadlock_codes = frozenset({"40P01", "40001"})
    lock_timeout_codes = frozenset({"55P03"})

    def next_number_sql(self, table: str) -> str | None:
        return f"nextval(pg_get_serial_sequence('{table}', 'id'))"

    def to_db_id(self, digits: str) -> object:
        return uuid.UUID(digits)

    def uses_psycopg3(self, using: str) -> bool:
        connection: Any = connections[using]
        return bool(connection.Database.__name__ == "psycopg")

    def can_listen(self, using: str) -> bool:
        """Return True for a dedicated session, not shared by a pooler in the driver or before the server."""
        settings = connections[using].settings_dict
        is_shared = settings["OPTIONS"].get("pool") or settings.get("DISABLE_SERVER_SIDE_CURSORS")
        return self.uses_psycopg3(using) and not is_shared

    @contextmanager
    def waiting_at_most(self, connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
        change = "SELECT set_config('lock_timeout', %s, true)"  # until the end of the transaction
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            (before,) = cursor.fetchone()
            cursor.execute(change, [f"{seconds * 1000:.0f}ms"])
            yield
            cursor.execute(change, [before])

    def session_of(self, connection: BaseDatabaseWrapper) -> Session | None:
        """Return None behind a pooler in transaction mode, according to its setting."""
        if connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
            return None
        with connection.cursor() as cursor:
            cursor.execute("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            row = cursor.fetchone()
        return Session(*row) if row else None

    def has_session(self, connection: BaseDatabaseWrapper, session: Session) -> bool:
        """Return True also for a session with the same number whose start is hidden from this role."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND coalesce(backend_start = %s, true)", list(session)
            )
            return cursor.fetchone() is not None

    def uptime_seconds(self, connection: BaseDatabaseWrapper) -> float:
        with connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8")
            seconds: float = cursor.fetchone()[0]
            return seconds

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return the rows counted by the last VACUUM or ANALYZE. Before the first one, PostgreSQL stores -1.

        The partitions of a partitioned table are summed. ``pg_partition_tree`` is empty for other tables.
        """
        sql = """
            SELECT name, CASE WHEN min(reltuples) >= 0 THEN sum(reltuples) END,
                sum(pg_total_relation_size(pg_class.oid))
            FROM unnest(%s::text[]) AS name
            LEFT JOIN LATERAL pg_partition_tree(name::regclass) AS part ON isleaf
            JOIN pg_class ON pg_class.oid = coalesce(part.relid, name::regclass)
            GROUP BY name"""
        names = {connection.ops.quote_name(table): table for table in tables}
        estimates = self._estimates(connection, sql, [list(names)])
        return {names[name]: estimate for name, estimate in estimates.items()}

    def fillfactor_sql(self, table: str, percent: int) -> Sequence[str]:
        """Return ALTER TABLE. It affects pages written later."""
        return (f"ALTER TABLE {table} SET (fillfactor = {percent})",)

    def analyze(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> None:
        """Run ANALYZE, because autovacuum may take more than a minute to do so."""
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {', '.join(map(connection.ops.quote_name, tables))}")


_UNSUPPORTED = BaseDialect()
_DIALECTS: dict[str, BaseDialect] = {
    dialect.name: dialect for dialect in (PostgresqlDialect(), MysqlDialect(), SqliteDialect())
}

SUPPORTED_SYSTEMS = tuple(chain.from_iterable(dialect.systems for dialect in _DIALECTS.values()))
"""The names of the supported database systems, as shown to users."""


def dialect_of(using: str) -> BaseDialect:
    """Return the dialect of a database by its alias."""
    return dialect_for(connections[using])


def dialect_for(connection: BaseDatabaseWrapper) -> BaseDialect:
    """Return the dialect of a connection, or a plain ``BaseDialect`` for an unsupported system (see the checks)."""
    return _DIALECTS.get(connection.vendor, _UNSUPPORTED)


def is_supported(connection: BaseDatabaseWrapper) -> bool:
    """Return True if a dialect exists for this connection's system."""
    return connection.vendor in _DIALECTS
