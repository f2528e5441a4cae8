"""MySQL and MariaDB, which Django treats as one vendor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from django.db.backends.base.base import BaseDatabaseWrapper

from .base import BaseDialect, TableEstimate


class MysqlDialect(BaseDialect):
    """Uses ``char(32)`` for ``id_column``: MariaDB's UUID type does not sort by bytes, and MySQL has none."""

    name = "mysql"
    systems = ("MySQL", "MariaDB")
    now_sql = "UTC_TIMESTAMP(6)"
    no_operation_sql = "DO 0"
    deadlock_codes = frozenset({1213})
    lock_timeout_codes = frozenset({1205})

    @contextmanager
    def waiting_at_most(self, connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
            (before,) = cursor.fetchone()
            cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [math.ceil(seconds)])
            try:
                yield
            finally:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", [before])

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return InnoDB's sampled statistics."""
        sql = """
            SELECT table_name, table_rows, data_length + index_length
            FROM information_schema.tables WHERE table_schema = database() AND table_name IN %s"""
        return self._estimates(connection, sql, [tuple(tables)])
