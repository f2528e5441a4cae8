"""SQL beyond the ORM for all dialects: compiled and prepared statements, functions, lateral queries, transactions.

``current`` reads rows as they are now, from the database that the router names for writes. A replica lags behind.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, connections, models, router, transaction
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


class _IsOneOf(models.Func):
    template = "%(expressions)s::%(type)s[])))"
    arg_joiner = " = ANY(ARRAY(SELECT unnest("
    arity = 2
    output_field = models.BooleanField()


def having_ids(
    rows: models.QuerySet[Any, Any], ids: Collection[str], *, field: str = "pk"
) -> models.QuerySet[Any, Any]:
    """Return the rows with these identifiers, or with these values of another field of identifiers.

    PostgreSQL reads each by the index. If it knew their number, it might read the whole table, again for each call.
    """
    connection = connections[rows.db]
    if not ids or not dialect_for(connection).has_lateral_joins:
        return rows.filter(**{f"{field}__in": ids})  # Django does not ask for none
    of: Any = rows.model._meta.pk if field == "pk" else rows.model._meta.get_field(field)
    values = [of.get_db_prep_value(each, connection) for each in ids]
    return rows.filter(_IsOneOf(models.F(field), models.Value(values), type=of.db_type(connection)))


def compiled(query: models.QuerySet[Any, Any]) -> Query:
    """Return the SQL of a query that may refer to rows outside it."""
    sql, params = query.query.get_compiler(query.db).as_sql()
    return sql, list(params)


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


UNKNOWN_STATEMENT, EXISTING_STATEMENT = "26000", "42P05"
"""The SQLSTATEs of ``EXECUTE`` for a statement unknown to the session, for example after ``DISCARD ALL``, and of
``PREPARE`` for one that another driver connection prepared in the same session."""

UNPREPARED_SECONDS = 600.0
"""Time without prepared statements after such an error, which shows that sessions are shared or reset."""

BY_INDEX = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"
"""Makes plans follow the order of an index, because the plan of an empty table is still used for a large backlog. A
bitmap scan would read the whole backlog of a webhook for each claim."""

BY_ANY_PLAN = "SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL enable_bitmapscan TO DEFAULT"
"""For the other statements of the same transaction, whose plans are new."""

MAX_JOINED = 100
"""Executions in one round trip."""

_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names of the prepared statements by driver connection."""

_unprepared: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()
"""The number of executions of statements that are not prepared yet, by driver connection."""

_is_pooled: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Whether the session of a driver connection belongs to a pooler, if known."""

_unprepared_until: dict[str, float] = {}
"""The end of the time without prepared statements by alias (monotonic), because a reconnection would prepare again."""


class PreparedStatement:
    """A statement for PostgreSQL with named parameters, planned once per session.

    Planning a complex statement takes longer than executing it, and Django prepares no statements: client-side binding
    inserts the values into the text. ``PREPARE`` and ``EXECUTE`` are plain SQL, so they work with psycopg 3, with
    psycopg2 and through Django's cursors.

    ``types`` contains the PostgreSQL type of each parameter. Connections that execute the statement no more than
    ``after`` times never prepare it. With ``by_index``, its plan has no sequential and no bitmap scans.
    """

    def __init__(self, sql: str, types: Mapping[str, str], *, after: int = 0, by_index: bool = True) -> None:
        numbers = {name: f"${number}" for number, name in enumerate(types, start=1)}
        text = re.sub(r"%\((\w+)\)s", lambda match: numbers[match[1]], sql).replace("%%", "%")
        self._sql = sql
        self._name = f"webhooks_app_{sha256(text.encode()).hexdigest()[:16]}"
        self._prepare = f"PREPARE {self._name} ({', '.join(types.values())}) AS {text}"
        self._execute = f"EXECUTE {self._name} ({', '.join(f'%({name})s' for name in types)})"
        self._after = after
        self._by_index = by_index

    def fetch(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute the statement, prepared if the session allows it, and return its rows."""
        connection.ensure_connection()
        if not self._can_prepare(connection):
            return self._fetch_unprepared(connection, values)
        try:
            return self._fetch_prepared(connection, values)
        except DatabaseError as error:
            if sqlstate(error) not in (UNKNOWN_STATEMENT, EXISTING_STATEMENT):
                raise
            _unprepared_until[connection.alias] = time.monotonic() + UNPREPARED_SECONDS
            _prepared.pop(connection.connection, None)
            if connection.in_atomic_block:  # aborted by the error
                raise
            return self._fetch_unprepared(connection, values)

    def fetch_each(
        self, connection: BaseDatabaseWrapper, values: Sequence[Mapping[str, Any]]
    ) -> list[list[tuple[Any, ...]]]:
        """Execute the statement for each of these values, and return the rows of each execution.

        Call it after ``fetch`` in the same transaction. Once the statement is prepared, psycopg 3 needs one round trip.
        """
        found: list[list[tuple[Any, ...]]] = []
        can_join = dialect_for(connection).uses_psycopg3(connection.alias)
        while left := values[len(found) :]:
            if can_join and self._name in _prepared.get(connection.connection, ()):
                found += self._fetch_joined(connection, left[:MAX_JOINED])
            else:
                found.append(self.fetch(connection, left[0]))
        return found

    def _fetch_joined(
        self, connection: BaseDatabaseWrapper, values: Sequence[Mapping[str, Any]]
    ) -> list[list[tuple[Any, ...]]]:
        found = []
        with connection.cursor() as cursor:
            cursor.execute("; ".join(cursor.mogrify(self._execute, each) for each in values))
            for _ in values:
                found.append(_rows(cursor))
                cursor.nextset()
        return found

    def _fetch_prepared(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        names = _prepared.setdefault(connection.connection, set())
        with connection.cursor() as cursor:
            if self._name not in names:
                cursor.execute(self._prepare)
                names.add(self._name)
            # psycopg2 has only the last result, so nothing can follow there.
            has_results = self._by_index and dialect_for(connection).uses_psycopg3(connection.alias)
            before = f"{BY_INDEX}; " if self._by_index else ""
            after = f"; {BY_ANY_PLAN}" if has_results and connection.in_atomic_block else ""
            cursor.execute(f"{before}{self._execute}{after}", values)
            if has_results:
                cursor.nextset()
            return _rows(cursor)

    def _fetch_unprepared(self, connection: BaseDatabaseWrapper, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(self._sql, values)
            return _rows(cursor)

    def _can_prepare(self, connection: BaseDatabaseWrapper) -> bool:
        """Return False behind a pooler, for server-side binding, after errors, and for few executions.

        ``EXECUTE`` accepts no parameters of server-side binding. The transaction of a caller, which is a nested atomic
        block, has its own planner settings.
        """
        options = connection.settings_dict
        if options.get("DISABLE_SERVER_SIDE_CURSORS") or options["OPTIONS"].get("server_side_binding"):
            return False
        if self._by_index and connection.savepoint_ids:
            return False
        if time.monotonic() < _unprepared_until.get(connection.alias, 0.0):
            return False
        if self._after and self._name not in _prepared.get(connection.connection, ()):
            counts = _unprepared.setdefault(connection.connection, Counter())
            counts[self._name] += 1
            if counts[self._name] <= self._after:
                return False
        return not _is_behind_pooler(connection)


@lru_cache(maxsize=64)
def prepared(sql: str, types: tuple[tuple[str, str], ...]) -> PreparedStatement:
    """Return the prepared form of a statement. ``types`` are pairs of a parameter and its type."""
    return PreparedStatement(sql, dict(types))


def _is_behind_pooler(connection: BaseDatabaseWrapper) -> bool:
    """Return True if the driver's process ID of the session, from the start of the connection, is not the server's."""
    driver = connection.connection
    if driver not in _is_pooled:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            _is_pooled[driver] = cursor.fetchone()[0] != driver.info.backend_pid
    return _is_pooled[driver]


def _rows(cursor: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
    return rows
