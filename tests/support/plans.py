"""Plans of statements on SQLite, with their parameters, because it chooses some indexes by the text of a statement."""

from __future__ import annotations

from collections.abc import Iterator
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
