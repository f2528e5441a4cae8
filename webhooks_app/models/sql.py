"""SQL beyond Django's own: what the databases do differently, and statements that are compiled once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections, models, transaction
from django.db.models.functions import Now


class UtcNow(Now):
    """The database's time. On MySQL and MariaDB, ``Now`` is in the time zone of the session, and read as UTC."""

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)


class Slot(models.Value):
    """The place of a value in a statement that is compiled once, and executed with other values each time."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


def fill(params: Iterable[Any], values: Mapping[str, Any]) -> list[Any]:
    """Return the parameters of a compiled statement with the value, as the database takes it, in place of each slot."""
    return [values[param.value] if isinstance(param, Slot) else param for param in params]


@contextmanager
def writing(using: str, model: type[models.Model]) -> Iterator[None]:
    """Open a transaction that will write."""
    with transaction.atomic(using=using):
        take_write_lock(using, model)
        yield


def take_write_lock(using: str, model: type[models.Model]) -> None:
    """Begin to write on SQLite, with a statement that changes nothing; other databases lock rows.

    SQLite refuses a transaction that reads first and writes later if another one wrote in between.
    """
    connection = connections[using]
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            names = (model._meta.db_table, str(model._meta.pk.column))
            table, key = (connection.ops.quote_name(name) for name in names)
            cursor.execute(f"UPDATE {table} SET {key} = {key} WHERE 0 = 1")


ROWS_AT_A_TIME = 200


def add_to_counters(
    using: str,
    model: type[models.Model],
    keys: Sequence[str],
    counters: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Add to the counters of the rows with these keys, which are unique; insert the rows that are not there yet.

    Each of ``rows`` has the values of ``keys``, then those of ``counters``.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    table = quote(model._meta.db_table)
    key_fields: list[Any] = [model._meta.get_field(name) for name in keys]
    columns = ", ".join(map(quote, (*keys, *counters)))
    marks = f"({', '.join(['%s'] * (len(keys) + len(counters)))})"
    if connection.vendor == "mysql":
        added = ", ".join(f"{quote(name)} = {quote(name)} + VALUES({quote(name)})" for name in counters)
        conflict = f"ON DUPLICATE KEY UPDATE {added}"
    else:
        added = ", ".join(f"{quote(name)} = {table}.{quote(name)} + excluded.{quote(name)}" for name in counters)
        conflict = f"ON CONFLICT ({', '.join(map(quote, keys))}) DO UPDATE SET {added}"
    at_a_time = min(ROWS_AT_A_TIME, (connection.features.max_query_params or 30_000) // (len(keys) + len(counters)))
    with connection.cursor() as cursor:
        for first in range(0, len(rows), at_a_time):
            some = rows[first : first + at_a_time]
            values = [
                value
                for row in some
                for value in (
                    *(field.get_db_prep_save(key, connection) for field, key in zip(key_fields, row, strict=False)),
                    *row[len(keys) :],
                )
            ]
            cursor.execute(
                f"INSERT INTO {table} ({columns}) VALUES {', '.join([marks] * len(some))} {conflict}", values
            )
