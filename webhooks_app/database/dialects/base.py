"""The interface of a dialect. Its defaults are standard SQL, or the absence of a feature.

Dialects contain only differences beyond those of the ORM and of ``connection.features``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class TableEstimate(NamedTuple):
    """A table's approximate size. None means that the database does not provide the figure."""

    rows: int | None
    size: int | None
    """Bytes, including all indexes."""


class Session(NamedTuple):
    """A connection's identity on the server. A process number alone may be reused."""

    pid: int
    started_at: datetime


class BaseDialect:
    """The differences of one database system. Instances have no state, so all connections share one."""

    name: ClassVar[str] = ""
    """Django's ``vendor``. MySQL and MariaDB have the same."""

    systems: ClassVar[Sequence[str]] = ()
    """The systems of this vendor, as shown to users."""

    id_column: ClassVar[str] = "char(32)"
    """The column type of a public identifier. It must sort by bytes, in the order of creation."""

    now_sql: ClassVar[str | None] = None
    """SQL for the server's time in microseconds, in UTC or with a time zone. None for the local machine's time."""

    no_operation_sql: ClassVar[str] = "SELECT 1"
    """A statement without effect, for migration operations that do not apply."""

    can_notify: ClassVar[bool] = False
    """Whether NOTIFY reaches other connections that LISTEN."""

    has_lateral_joins: ClassVar[bool] = False
    """Whether subqueries in FROM can refer to preceding rows and have their own LIMIT. Arrays can be such rows."""

    has_single_writer: ClassVar[bool] = False
    """Whether a writing transaction excludes all other writers. Rows have no locks."""

    loose_text_column: ClassVar[str] = ""
    """Type of a column for short text without a limit; empty for the type with a limit."""

    inserts_in_with: ClassVar[bool] = False
    """Whether a WITH clause can contain an INSERT, so that one statement fills two tables."""

    generates_rows: ClassVar[bool] = False
    """Whether test data can be generated in the database, with ``generate_series`` and JSON."""

    deadlock_codes: ClassVar[frozenset[object]] = frozenset()
    """The SQLSTATEs or error numbers of a transaction that was rolled back in favour of another one."""

    lock_timeout_codes: ClassVar[frozenset[object]] = frozenset()
    """The SQLSTATEs or error numbers of a statement that waited for a lock too long."""

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
        """Return True if a transaction cannot wait for another writer after its first read."""
        return False

    def begin_write(self, connection: BaseDatabaseWrapper, model: type[models.Model]) -> None:
        """Take the write lock of a database without row locks."""

    @contextmanager
    def waiting_at_most(self, connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
        """Limit the time that each statement in the block, within a transaction, waits for a lock.

        Without row locks, the connection's own timeout applies.
        """
        yield

    def session_of(self, connection: BaseDatabaseWrapper) -> Session | None:
        """Return the session of a connection, or None if other connections cannot detect its end."""
        return None

    def has_session(self, connection: BaseDatabaseWrapper, session: Session) -> bool:
        """Return True unless the session has certainly ended."""
        return True

    def uptime_seconds(self, connection: BaseDatabaseWrapper) -> float:
        """Return the server's uptime, or infinity if it is unknown."""
        return math.inf

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return estimates by table name, from one query without counting."""
        return {}

    def fillfactor_sql(self, table: str, percent: int) -> Sequence[str]:
        """Return the statements that reserve space on a table's pages. The table name is already quoted."""
        return ()

    def analyze(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> None:
        """Update the planner's statistics after the insertion of many rows, if they would otherwise remain outdated."""

    @staticmethod
    def _estimates(
        connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any] | None = None
    ) -> dict[str, TableEstimate]:
        """Return the estimates from a query for the name, rows and size of each table."""
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return {name: TableEstimate(_whole(rows), _whole(size)) for name, rows, size in cursor.fetchall()}


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)
