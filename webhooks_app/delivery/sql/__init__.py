"""The engine's statements for many rows, optimized for each database, and a query of the oldest due delivery."""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import lru_cache

from django.db import connections

from ...database.dialects import dialect_for
from ..claim import MAX_LANES
from .portable import MysqlSql, PortableSql, SqliteSql
from .postgresql import PostgresqlSql

__all__ = ["PortableSql", "sql_for"]

_BY_DIALECT: dict[str, type[PortableSql]] = {"mysql": MysqlSql, "postgresql": PostgresqlSql, "sqlite": SqliteSql}


def sql_for(using: str) -> PortableSql:
    """Return the statements for a database. Its threads share them."""
    connection = connections[using]
    return _sql_for(using, dialect_for(connection).name, connection.timezone)


@lru_cache(maxsize=16)
def _sql_for(using: str, dialect: str, _time_zone: tzinfo | None) -> PortableSql:
    """Return the statements, which are made once for the time zone to which they convert times."""
    return _BY_DIALECT.get(dialect, PortableSql)(using)


def oldest_due_at(using: str, now: datetime) -> datetime | None:
    """Return the due time of the oldest sendable delivery, or None if none is due.

    Deliveries held by the state of their webhook are excluded. The query reads a few index entries per webhook with
    pending deliveries, regardless of their number.
    """
    sql = sql_for(using)
    oldest: list[datetime] = []
    after = None
    while True:
        page = sql.due_webhooks(now, after=after)
        oldest += [each.due_at for each in page if each.due_at is not None and each.due_at <= now]
        if len(page) < MAX_LANES:
            return min(oldest, default=None)
        after = page[-1].webhook_id
