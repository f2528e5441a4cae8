"""MySQL and MariaDB, which Django treats as one vendor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from .base import BaseDialect, TableEstimate


class MysqlDialect(BaseDialect):
    """Uses ``char(32)`` for ``id_column``: MariaDB's UUID type does not sort by bytes, and MySQL has none."""

    name = "mysql"
    systems = ("MySQL", "MariaDB")
    now_sql = "UTC_TIMESTAMP(6)"
    no_operation_sql = "DO 0"
    deadlock_codes = frozenset({1213})

    def table_estimates(self, connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Mapping[str, TableEstimate]:
        """Return InnoDB's sampled statistics."""
        sql = """
            SELECT table_name, table_rows, data_length + index_length
            FROM information_schema.tables WHERE table_schema = database() AND table_name IN %s"""
        return self._estimates(connection, sql, [tuple(tables)])
