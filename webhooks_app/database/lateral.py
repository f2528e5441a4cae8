"""Queries that run once for each of some rows, each time with a LIMIT of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from .dialects import dialect_for
from .sql import Slot, fill

Query = tuple[str, Sequence[Any]]
"""SQL, and its parameters."""


class OuterId(Slot):
    """The ``id`` of a row outside the query; its value is that row's alias."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        if dialect_for(connection).has_lateral_joins:
            return f"{self.value}.id", []
        return super().as_sql(compiler, connection)


def for_each(connection: BaseDatabaseWrapper, alias: str, ids: Sequence[Any], query: Query) -> Query:
    """Return the rows of a query for each of these ids, which is ``OuterId(alias)`` in the query.

    The ids are as the database takes them, and at least one. Without lateral joins, the query is repeated.
    """
    sql, params = query
    if dialect_for(connection).has_lateral_joins:
        return joined(f"unnest(%s) AS {alias} (id)", sql), [list(ids), *params]
    union = " UNION ALL ".join([f"SELECT * FROM ({sql}) AS found"] * len(ids))
    return f"SELECT * FROM ({union}) AS found", [value for pk in ids for value in fill(params, {alias: pk})]


def joined(rows: str, sql: str) -> str:
    """Return the SQL for the rows of a query, ``found``, for each of other rows; only with lateral joins."""
    return f"SELECT found.* FROM {rows} CROSS JOIN LATERAL ({sql}) AS found"
