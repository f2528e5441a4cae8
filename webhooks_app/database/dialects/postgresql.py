"""PostgreSQL, with psycopg 3 or psycopg2."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .base import BaseDialect, Session, TableEstimate


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
