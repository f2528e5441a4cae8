"""Differences between database systems: one dialect class for each of Django's vendors."""

from __future__ import annotations

from itertools import chain

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .base import BaseDialect, TableEstimate
from .mysql import MysqlDialect
from .postgresql import PostgresqlDialect
from .sqlite import SqliteDialect

__all__ = ["SUPPORTED_SYSTEMS", "BaseDialect", "TableEstimate", "dialect_for", "dialect_of", "is_supported"]

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
