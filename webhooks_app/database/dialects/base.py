"""The contract of a dialect. Its defaults are standard SQL, or the absence of a feature.

Dialects hold only the differences that neither the ORM nor a flag of ``connection.features`` expresses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class TableEstimate(NamedTuple):
    """A table's approximate size. None stands for a figure that this database does not have."""

    rows: int | None
    size: int | None
    """Bytes, with all indexes."""


class Session(NamedTuple):
    """A connection as the server knows it. The process number alone is used again."""

    pid: int
    started_at: datetime


class BaseDialect:
    """One database system's differences. Instances have no state, so all connections share one."""

    name: ClassVar[str] = ""
    """Django's ``vendor``. MySQL and MariaDB share one."""

    systems: ClassVar[Sequence[str]] = ()
    """The systems of this vendor, for people."""

    id_column: ClassVar[str] = "char(32)"
    """The column type of a public identifier. It must sort by bytes, which is the order of creation."""

    now_sql: ClassVar[str | None] = None
    """The server's time in UTC, or with its time zone, in microseconds. None where the server is this machine."""

    no_operation_sql: ClassVar[str] = "SELECT 1"
    """A statement without effect, for a migration operation with nothing to do here."""

    can_notify: ClassVar[bool] = False
    """NOTIFY reaches other connections that LISTEN."""

    has_lateral_joins: ClassVar[bool] = False
    """A subquery in FROM can refer to the rows before it, so that each has its own LIMIT; arrays are such rows."""

    has_single_writer: ClassVar[bool] = False
    """A transaction that writes excludes all others that write; rows have no locks."""

    inserts_in_with: ClassVar[bool] = False
    """A WITH clause can contain an INSERT, so that one statement fills two tables."""

    generates_rows: ClassVar[bool] = False
    """Test data can be computed inside the database, from ``generate_series`` and JSON."""

    def next_number_sql(self, table: str) -> str | None:
        """Return an expression for the next key of a table, whose name is quoted; None if only an INSERT makes one.

        Transactions that follow each other get ascending numbers, and a number is never made twice.
        """
        return None

    def to_db_id(self, digits: str) -> object:
        """Return the parameter for the 32 hexadecimal digits of an identifier."""
        return digits

    def uses_psycopg3(self, using: str) -> bool:
        """Return True if the driver is psycopg 3."""
        return False

    def can_listen(self, using: str) -> bool:
        """Return True if a connection can wait for notifications."""
        return False

    def begins_by_reading(self, connection: BaseDatabaseWrapper) -> bool:
        """Return True if a transaction cannot wait for another writer once it has read anything."""
        return False

    def begin_write(self, connection: BaseDatabaseWrapper, model: type[models.Model]) -> None:
        """Take the write lock of a database whose rows have none."""

    def session_of(self, connection: BaseDatabaseWrapper) -> Session | None:
        """Return the session of a connection; None where other connections cannot see whether it has ended."""
        return None

    def has_session(self, connection: BaseDatabaseWrapper, session: Session) -> bool:
        """Return True unless it is certain that the session has ended."""
        return True

    def uptime_seconds(self, connection: BaseDatabaseWrapper) -> float:
        """Return for how long the server has been running; infinity if it is unknown."""
        return math.inf

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return estimates by the table's name, from one query that counts nothing."""
        return {}

    def fillfactor_sql(self, table: str, percent: int) -> Sequence[str]:
        """Return the statements that leave room on the pages of a table, whose name is quoted."""
        return ()

    def analyze(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> None:
        """Renew the planner's statistics after many rows were added, where they would stay stale for long."""

    @staticmethod
    def _estimates(
        connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any] | None = None
    ) -> dict[str, TableEstimate]:
        """Return the estimates of a query for the name, the rows and the size of each table."""
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return {name: TableEstimate(_whole(rows), _whole(size)) for name, rows, size in cursor.fetchall()}


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)
