"""How big this app's tables are, as far as the database knows it without counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.apps import apps
from django.db import connections, models

from ..ids import time_of
from .fields import IdField

OF_POSTGRESQL = """
    SELECT name, CASE WHEN min(reltuples) >= 0 THEN sum(reltuples) END, sum(pg_total_relation_size(pg_class.oid))
    FROM unnest(%s::text[]) AS name
    LEFT JOIN LATERAL pg_partition_tree(name::regclass) AS part ON isleaf
    JOIN pg_class ON pg_class.oid = coalesce(part.relid, name::regclass)
    GROUP BY name"""
"""The rows are those of the last VACUUM or ANALYZE; of a table that neither has seen, PostgreSQL says -1.

A table may have been partitioned; of one that is not, there are no parts.
"""

OF_MYSQL = """
    SELECT table_name, table_rows, data_length + index_length
    FROM information_schema.tables WHERE table_schema = database() AND table_name IN %s"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSize:
    """What is known of a table; None stands for what this database does not tell."""

    model: type[models.Model]
    rows: int | None
    size: int | None
    """Bytes, with its indexes."""
    since: datetime | None
    """When the oldest row was made, for rows whose identifier tells it."""

    @property
    def name(self) -> str:
        return str(self.model._meta.verbose_name_plural)


def table_sizes(using: str) -> list[TableSize]:
    """Return every table of this app with estimates: by one query for all, and one entry of an index for each."""
    tables = list(apps.get_app_config("webhooks_app").get_models())
    estimates = _estimates(using, tables)
    return [
        TableSize(model=model, rows=rows, size=size, since=_since(using, model))
        for model in tables
        for rows, size in [estimates.get(model._meta.db_table, (None, None))]
    ]


def _estimates(using: str, tables: Sequence[type[models.Model]]) -> dict[str, tuple[int | None, int | None]]:
    connection = connections[using]
    names = {connection.ops.quote_name(model._meta.db_table): model._meta.db_table for model in tables}
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(OF_POSTGRESQL, [list(names)])
        elif connection.vendor == "mysql":
            cursor.execute(OF_MYSQL, [tuple(names.values())])
        else:
            # Numbers of rows are given out one by one: what was deleted in between is counted too.
            span = "(SELECT max(rowid) FROM {0}) - (SELECT min(rowid) FROM {0}) + 1"
            parts = [f"SELECT '{table}', coalesce({span.format(quoted)}, 0), NULL" for quoted, table in names.items()]
            cursor.execute(" UNION ALL ".join(parts))
        return {names.get(name, name): (_whole(rows), _whole(size)) for name, rows, size in cursor.fetchall()}


def _since(using: str, model: type[models.Model]) -> datetime | None:
    key = model._meta.pk
    if not isinstance(key, IdField):
        return None
    oldest = model._default_manager.using(using).order_by("pk").values_list("pk", flat=True).first()
    return None if oldest is None else time_of(oldest)


def _whole(number: object) -> int | None:
    return None if number is None else int(str(number).partition(".")[0])
