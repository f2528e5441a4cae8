"""The statements over many rows, as each database does them best."""

from __future__ import annotations

from django.db import connections

from .portable import PortableStatements
from .postgresql import PostgresqlStatements
from .sqlite import SqliteStatements

_BY_VENDOR: dict[str, type[PortableStatements]] = {"postgresql": PostgresqlStatements, "sqlite": SqliteStatements}


def statements_for(using: str) -> PortableStatements:
    return _BY_VENDOR.get(connections[using].vendor, PortableStatements)(using)
