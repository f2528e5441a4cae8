"""Queries that run once per row of another query, each time with their own LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from .dialects import dialect_for
from .sql import Slot, fill

Query = tuple[str, Sequence[Any]]
"""SQL and its parameters."""


class OuterId(Slot):
    """The ``id`` of a row outside the query. Its value is the alias of that row."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        if dialect_for(connection).has_lateral_joins:
            return f"{self.value}.id", []
        return super().as_sql(compiler, connection)


def for_each(connection: BaseDatabaseWrapper, alias: str, ids: Sequence[Any], query: Query) -> Query:
    """Return a query that runs ``query`` for each of the ids. ``query`` refers to the id as ``OuterId(alias)``.

    The ids are database values, and there is at least one. Without lateral joins, the query is repeated.
    """
    sql, params = query
    if dialect_for(connection).has_lateral_joins:
        return joined(f"unnest(%s) AS {alias} (id)", sql), [list(ids), *params]
    union = " UNION ALL ".join([f"SELECT * FROM ({sql}) AS found"] * len(ids))
    return f"SELECT * FROM ({union}) AS found", [value for pk in ids for value in fill(params, {alias: pk})]


def joined(rows: str, sql: str) -> str:
    """Return the SQL that runs a query, as ``found``, for each of the rows. Requires lateral joins."""
    return f"SELECT found.* FROM {rows} CROSS JOIN LATERAL ({sql}) AS found"
