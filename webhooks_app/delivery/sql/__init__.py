"""The engine's statements for many rows, optimized for each database."""

from __future__ import annotations

from ...database.dialects import dialect_of
from .mysql import MysqlSql
from .portable import PortableSql
from .postgresql import PostgresqlSql
from .sqlite import SqliteSql

__all__ = ["PortableSql", "sql_for"]

_BY_DIALECT: dict[str, type[PortableSql]] = {"mysql": MysqlSql, "postgresql": PostgresqlSql, "sqlite": SqliteSql}


def sql_for(using: str) -> PortableSql:
    """Return the statements for a database. They are built on first use, so keep the object."""
    return _BY_DIALECT.get(dialect_of(using).name, PortableSql)(using)
