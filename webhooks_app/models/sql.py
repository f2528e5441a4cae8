"""What the databases do differently, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, models, transaction
from django.db.models.functions import Now


class UtcNow(Now):
    """The database's time. On MySQL and MariaDB, ``Now`` is in the time zone of the session, and read as UTC."""

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)


@contextmanager
def writing(using: str, model: type[models.Model]) -> Iterator[None]:
    """Open a transaction that will write.

    SQLite refuses a transaction that reads first and writes later if another one wrote in between, so it takes the
    write lock at the start, with a statement that changes nothing.
    """
    connection = connections[using]
    with transaction.atomic(using=using):
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"UPDATE {connection.ops.quote_name(model._meta.db_table)} SET id = id WHERE 0 = 1")
        yield
