"""The statements over many rows, as each database does them best."""

from __future__ import annotations

from django.db import connections

from .portable import PortableStatements
from .postgresql import PostgresqlStatements


def statements_for(using: str) -> PortableStatements:
    is_postgresql = connections[using].vendor == "postgresql"
    return PostgresqlStatements(using) if is_postgresql else PortableStatements(using)
