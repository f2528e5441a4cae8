"""SQL beyond Django's own, the same for every dialect: statements compiled once, counters, write transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections, models, transaction
from django.db.models.functions import Now, StrIndex

from .dialects import dialect_for, dialect_of

Model = TypeVar("Model", bound=models.Model)


class UtcNow(Now):
    """The database's time. On MySQL and MariaDB, ``Now`` is in the time zone of the session, and read as UTC."""

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template=dialect_for(connection).now_sql, **context)


class Position(StrIndex):
    """The place of a text in another, to the letter. MySQL and MariaDB otherwise ignore case and accents."""

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="INSTR(BINARY %(expressions)s)", **context)


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
    """Begin to write, in a transaction, where the database locks no rows."""
    dialect_of(using).begin_write(connections[using], model)


def upsert(
    rows: models.QuerySet[Model], objects: Sequence[Model], *, unique: Sequence[str], update: Sequence[str]
) -> None:
    """Insert the objects, or update these fields of the rows that have the same values of the unique fields."""
    has_target = connections[rows.db].features.supports_update_conflicts_with_target
    rows.bulk_create(objects, update_conflicts=True, unique_fields=unique if has_target else None, update_fields=update)
