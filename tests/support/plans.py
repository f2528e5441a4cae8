"""The cost of statements, regardless of the machine: plans on SQLite, and rows read on the other databases.

SQLite gets the plans with their parameters, because it chooses some indexes by the text of a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, models


class Plans:
    def __init__(self) -> None:
        self.statements: list[tuple[str, Any]] = []

    def record(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        # The write lock is an UPDATE of no rows.
        if not many and "WHERE 0 = 1" not in sql and sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            self.statements.append((sql, params))
        return execute(sql, params, many, context)

    def of(self, model: type[models.Model]) -> list[str]:
        """Return the steps that read the table of a model, in the words of SQLite."""
        steps: list[str] = []
        for sql, params in self.statements:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
                found = [str(row[3]) for row in cursor.fetchall()] if model._meta.db_table in sql else []
                steps += found
        return steps

    def scans(self, model: type[models.Model]) -> list[str]:
        """Return the steps that read every row or index entry of a model's table."""
        table = model._meta.db_table
        return [step for step in self.of(model) if step.startswith("SCAN") and table in step.split()]


@contextmanager
def recorded_plans() -> Iterator[Plans]:
    plans = Plans()
    with connection.execute_wrapper(plans.record):
        yield plans


def make_tables_new() -> None:
    """Give empty tables new files until the end of the transaction, on PostgreSQL.

    The rows that earlier tests rolled back still fill the old ones. The planner counts their pages, so that its plans
    would depend on the tests before.
    """
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        tables = [f'"{name}"' for name in connection.introspection.django_table_names(only_existing=True)]
        cursor.execute(f"SELECT {', '.join(f'EXISTS (SELECT FROM {table})' for table in tables)}")
        empty = [table for table, has_rows in zip(tables, cursor.fetchone(), strict=True) if not has_rows]
        regclasses = ", ".join(f"'{table}'::regclass" for table in empty)
        cursor.execute(f"TRUNCATE {', '.join(empty)}")
        cursor.execute(f"DELETE FROM pg_statistic WHERE starelid IN ({regclasses})")


def update_statistics() -> None:
    """Let the planner of PostgreSQL know the rows of this transaction."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


READ_SQL = {
    "postgresql": "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables",
    "mysql": """
        SELECT SUM(VARIABLE_VALUE) FROM information_schema.SESSION_STATUS
        WHERE VARIABLE_NAME LIKE 'HANDLER_READ%%' AND VARIABLE_NAME NOT LIKE '%%RND%%'""",
}
"""The number of rows read by this session, on PostgreSQL in this transaction."""


def rows_read(action: Callable[[], object]) -> int:
    """Return the number of rows that an action reads from tables and indexes."""
    before = _rows_read()
    action()
    return _rows_read() - before


def _rows_read() -> int:
    with connection.cursor() as cursor:
        cursor.execute(READ_SQL[connection.vendor])
        return int(cursor.fetchone()[0])
