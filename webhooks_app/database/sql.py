"""SQL beyond the ORM for all dialects: compiled statements, database functions, lateral queries, write transactions.

``current`` reads rows as they are now, from the database that the router names for writes. A replica lags behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from typing import Any, Generic, TypeVar

from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    connections,
    models,
    router,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now, StrIndex

from .dialects import dialect_for, dialect_of

Model = TypeVar("Model", bound=models.Model)


class UtcNow(Now):
    """The database's time in UTC. On MySQL and MariaDB, ``Now`` returns the session's local time."""

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template=dialect_for(connection).now_sql, **context)


class Position(StrIndex):
    """The exact position of a text in another. ``StrIndex`` ignores case and accents on MySQL and MariaDB."""

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="INSTR(BINARY %(expressions)s)", **context)


class Slot(models.Value):
    """A placeholder for a value in a statement that is compiled once and executed with different values."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


def fill(params: Iterable[Any], values: Mapping[str, Any]) -> list[Any]:
    """Return the parameters of a compiled statement, with database values in place of its slots."""
    return [values[param.value] if isinstance(param, Slot) else param for param in params]


def with_names(sql: str, params: Sequence[Any], literal: Callable[[Any], str]) -> str:
    """Return a compiled statement with named parameters for its slots, and literals for the other parameters."""
    marks = [f"%({param.value})s" if isinstance(param, Slot) else literal(param).replace("%", "%%") for param in params]
    texts = sql.split("%s")
    return "".join(chain(*zip(texts, [*marks, ""], strict=True)))


class CompiledValues:
    """The values of a query, compiled once, because Django takes longer to compile it than the database to execute it.

    The query has slots for its values, and only the columns of its own model.
    """

    def __init__(self, rows: models.QuerySet[Any, Any]) -> None:
        self._using = rows.db
        compiler = rows.query.get_compiler(rows.db)
        self._sql, self._params = compiler.as_sql()
        self._converters = compiler.get_converters([column for column, *_ in compiler.select])

    def fetch(self, values: Mapping[str, Any]) -> list[list[Any]]:
        """Return the rows for these values of the slots, which are database values."""
        connection = connections[self._using]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, fill(self._params, values))
            rows = [list(row) for row in cursor.fetchall()]
        for row in rows:
            for place, (converters, column) in self._converters.items():
                for convert in converters:
                    row[place] = convert(row[place], column, connection)
        return rows


class CompiledRows(CompiledValues, Generic[Model]):
    """The same as objects of the model."""

    def __init__(self, rows: models.QuerySet[Model]) -> None:
        super().__init__(rows)
        self._model = rows.model
        self._names = [field.attname for field in rows.model._meta.concrete_fields]

    def fetch_objects(self, values: Mapping[str, Any]) -> list[Model]:
        return [self._model.from_db(self._using, self._names, row) for row in self.fetch(values)]


def sqlstate(error: Exception) -> str:
    """Return the SQLSTATE of a database error, or "" if the driver reports none. psycopg2 has ``pgcode``."""
    cause: Any = error.__cause__
    return getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or ""


def concerns_rows(error: Exception) -> bool:
    """Return True for an error that the values of a row can cause, and False if the database is unavailable."""
    return isinstance(error, (DataError, IntegrityError)) or not isinstance(error, (DatabaseError, InterfaceError))


def kind_of(error: Exception) -> str:
    """Return the kind and the place of an error, without its text, because that may quote a row and its secrets."""
    steps = extract_tb(error.__traceback__)
    place = f" in {Path(steps[-1].filename).name}, line {steps[-1].lineno}" if steps else ""
    code = sqlstate(error)
    return f"{type(error).__name__}{f', SQLSTATE {code}' if code else ''}{place}"


def is_deadlock(using: str, error: Exception) -> bool:
    """Return True if a transaction was rolled back in favour of another one, so that it can be repeated at once."""
    return not dialect_of(using).deadlock_codes.isdisjoint({sqlstate(error), *error.args[:1]})


def is_lock_timeout(using: str, error: Exception) -> bool:
    """Return True if a statement waited for the lock of another transaction too long."""
    codes = {sqlstate(error), *error.args[:1], getattr(error.__cause__, "sqlite_errorcode", None)}
    return not dialect_of(using).lock_timeout_codes.isdisjoint(codes)


@contextmanager
def writing(using: str, model: type[models.Model]) -> Iterator[None]:
    """Open a transaction for writing."""
    with transaction.atomic(using=using):
        take_write_lock(using, model)
        yield


def take_write_lock(using: str, model: type[models.Model]) -> None:
    """Take the write lock of a database without row locks, in the current transaction."""
    dialect_of(using).begin_write(connections[using], model)


def upsert(
    rows: models.QuerySet[Model], objects: Sequence[Model], *, unique: Sequence[str], update: Sequence[str]
) -> None:
    """Insert the objects, or update these fields of existing rows with the same values of the unique fields."""
    has_target = connections[rows.db].features.supports_update_conflicts_with_target
    rows.bulk_create(objects, update_conflicts=True, unique_fields=unique if has_target else None, update_fields=update)


Rows = TypeVar("Rows", bound="models.Manager[Any] | models.QuerySet[Any]")


def current(rows: Rows, **hints: Any) -> Rows:
    """Return a manager or QuerySet of any model, such as the host's users, on the database for writes.

    What the app reads to decide or to write, it reads through this function. Its own models do so by themselves, see
    ``BaseQuerySet``. ``hints`` are those of Django's database routers.
    """
    using = router.db_for_write(rows.model, **hints)
    on_it: Any = rows.db_manager(using) if isinstance(rows, models.Manager) else rows.using(using)
    return on_it  # type: ignore[no-any-return]


Query = tuple[str, Sequence[Any]]
"""SQL and its parameters."""


class OuterId(Slot):
    """The ``id`` of a row outside the query. Its value is the alias of that row."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        if dialect_for(connection).has_lateral_joins:
            return f"{self.value}.id", []
        return super().as_sql(compiler, connection)


def for_each(connection: BaseDatabaseWrapper, alias: str, ids: Sequence[Any], query: Query) -> Query:
    """Return a query that runs ``query`` for each of the ids. ``query`` refers to the id as ``OuterId(alias)``.

    The ids are database values, and there is at least one. Without lateral joins, the query is repeated.
    """
    sql, params = query
    if dialect_for(connection).has_lateral_joins:
        return joined(f"unnest(%s) AS {alias} (id)", sql), [list(ids), *params]
    union = " UNION ALL ".join([f"SELECT * FROM ({sql}) AS found"] * len(ids))
    return f"SELECT * FROM ({union}) AS found", [value for pk in ids for value in fill(params, {alias: pk})]


def joined(rows: str, sql: str) -> str:
    """Return the SQL that runs a query, as ``found``, for each of the rows. Requires lateral joins."""
    return f"SELECT found.* FROM {rows} CROSS JOIN LATERAL ({sql}) AS found"
