"""The outbox: an event and its deliveries, written by a fixed number of statements for any number of webhooks.

The statements are compiled once, because Django needs several times longer to compile them than the database needs to
execute them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from django.db import InternalError, connections, models, transaction
from django.db.models.functions import MD5, Cast, Concat, Substr

from ..choices import known_policies, retry_policy
from ..database.dialects import dialect_of
from ..database.sql import Slot, UtcNow, fill
from ..exceptions import IdempotencyConflictError
from ..models import Delivery, Event, EventReference, IdempotencyKey, QueueEntry, Webhook
from ..models.fields import IdField
from ..protocol.ids import RANDOM_HEX_DIGITS, time_digits
from ..retry import BaseRetryPolicy, pack_policy
from ..routing import RoutedEvent, filter_mismatch, webhooks_for
from ..signals import announce_deliveries, event_emitted

Row = TypeVar("Row", bound=models.Model)

IN_FAILED_TRANSACTION = "25P02"
"""PostgreSQL's SQLSTATE for every statement in a transaction after an error."""

Statement = tuple[str, Sequence[Any]]
"""SQL and its parameters, which include slots."""


class Queued(NamedTuple):
    """The number of an event's deliveries, and their webhooks if the database returned them."""

    number: int
    webhook_ids: Sequence[str] = ()


def insert_event(event: Event, using: str) -> Queued:
    """Insert an event and a queued delivery for each webhook that receives it."""
    connection = connections[using]
    values = {
        **{field.name: field.get_db_prep_save(getattr(event, field.attname), connection) for field in _EVENT_FIELDS},
        "time": time_digits(),
        "seed": secrets.token_hex(16),
    }
    insert = _insert_at_once if dialect_of(using).inserts_in_with else _insert_in_steps
    queued = insert(event, values, using)
    event._state.adding, event._state.db = False, using
    if event.unsaved_references:
        references = [EventReference(value=value, event=event) for value in event.unsaved_references]
        # MariaDB treats two references that differ only in case as equal.
        EventReference.objects.using(using).bulk_create(references, ignore_conflicts=True)
    return queued


def _insert_at_once(event: Event, values: dict[str, Any], using: str) -> Queued:
    """Insert with one statement. If a webhook has a filter, it returns the filters instead, and is executed again."""
    sql, params = _statement(using, has_owner=event.owner_id is not None, policies=_policies())
    with connections[using].cursor() as cursor:
        cursor.execute(sql, fill(params, {**values, "is_decided": False, "refused": "{}"}))
        rows = cursor.fetchall()
        filters = [(webhook_id, source) for webhook_id, source in rows if source is not None]
        if filters:
            refused = ",".join(str(webhook_id) for webhook_id in _refused(filters, event))
            cursor.execute(sql, fill(params, {**values, "is_decided": True, "refused": f"{{{refused}}}"}))
            rows = cursor.fetchall()
    return Queued(len(rows), [f"wh_{webhook_id.hex}" for webhook_id, _ in rows])


def _insert_in_steps(event: Event, values: dict[str, Any], using: str) -> Queued:
    """Insert within a transaction. The event comes first, because it takes the write lock of SQLite."""
    has_owner = event.owner_id is not None
    insert, find_filters, insert_deliveries, insert_entries = _statements(
        using, has_owner=has_owner, policies=_policies()
    )
    with connections[using].cursor() as cursor:
        for sql, params in (insert, find_filters):
            cursor.execute(sql, fill(params, values))
        if refused := _refused(cursor.fetchall(), event):
            insert_deliveries = _insert_deliveries(using, has_owner=has_owner, refused=refused)
        for sql, params in (insert_deliveries, insert_entries):
            cursor.execute(sql, fill(params, values))
        return Queued(int(cursor.rowcount))


def _refused(filters: Iterable[tuple[Any, str]], event: Event) -> list[Any]:
    """Return the webhooks whose filters do not match the event, by their ids in the database's form."""
    return [webhook_id for webhook_id, source in filters if filter_mismatch(source, event.data) is not None]


def is_one_statement(event: Event, using: str) -> bool:
    """Return True if ``insert_event`` needs no transaction around it."""
    return not event.unsaved_references and dialect_of(using).inserts_in_with


def claim_key(event: Event, key: str, using: str) -> str:
    """Claim an idempotency key for an event, within a transaction; return the id of the event that has it.

    Waits for other transactions that claimed the key. Raises IdempotencyConflictError if that event has another type
    or other data.
    """
    claimed = IdempotencyKey.of(event, key)
    IdempotencyKey.objects.using(using).bulk_create([claimed], ignore_conflicts=True)
    saved = find_committed(IdempotencyKey, claimed.pk, using)
    if saved.digest != claimed.digest:
        raise IdempotencyConflictError(key, saved.event_id)
    return saved.event_id


def find_committed(model: type[Row], pk: Any, using: str) -> Row:
    """Return an existing row, although it may be newer than the snapshot of a repeatable read."""
    rows = model._default_manager.using(using)
    return rows.filter(pk=pk).first() or rows.select_for_update().get(pk=pk)


@contextmanager
def writing_event(
    event: Event, using: str, *, in_one_statement: bool = False, savepoint: bool = False
) -> Iterator[None]:
    """Write in the caller's transaction, or in a new one; raise TransactionManagementError if the caller's is broken.

    A single statement in autocommit mode needs no transaction, which saves the round trips of BEGIN and COMMIT. With
    ``savepoint``, an error within the block leaves the caller's transaction usable.
    """
    connection = connections[using]
    refusal = (
        f"The event {event.type} cannot be emitted: an earlier error broke this transaction, which can only be rolled "
        "back. Do not catch that error inside of its atomic() block."
    )
    if connection.in_atomic_block and connection.needs_rollback:
        raise transaction.TransactionManagementError(refusal)
    is_alone = in_one_statement and connection.get_autocommit()
    try:
        with nullcontext() if is_alone else transaction.atomic(using=using, savepoint=savepoint):
            yield
    except InternalError as error:
        # PostgreSQL remembers an error that the caller caught; Django does not.
        if getattr(error.__cause__, "sqlstate", "") != IN_FAILED_TRANSACTION:
            raise
        raise transaction.TransactionManagementError(refusal) from error


def announce_events(using: str, *events: tuple[Event, Queued]) -> None:
    """Send the signals of events and their deliveries when the current transaction commits."""
    for event, queued in events:
        send = partial(event_emitted.send_robust, Event, event=event, deliveries=queued.number)
        transaction.on_commit(send, using=using)
    if any(queued.number for _, queued in events):
        announce_deliveries(using, [pk for _, queued in events for pk in queued.webhook_ids])


@lru_cache(maxsize=16)
def _statement(using: str, *, has_owner: bool, policies: tuple[str, ...]) -> Statement:
    """Return the statement that inserts an event, its deliveries and their queue entries.

    It returns a row for each delivery. If a webhook has a filter and nothing is decided yet, it inserts nothing and
    returns the webhooks with filters, and these filters. It depends on the available retry policies.
    """
    quote = connections[using].ops.quote_name
    names, columns = _delivery_columns()
    candidates, params = _compiled(_webhooks(using, has_owner=has_owner).values_list(*columns, "filter"), using)
    column_names = ", ".join(map(quote, names))
    is_open = "(%s OR NOT EXISTS (SELECT 1 FROM candidate WHERE filter IS NOT NULL))"
    entries, entry_params = _insert_entries(using, "delivery")
    event_names = ", ".join(quote(field.column) for field in _EVENT_FIELDS)
    sql = f"""
        WITH candidate ({column_names}, filter) AS MATERIALIZED ({candidates}),
        event AS (
            INSERT INTO {quote(Event._meta.db_table)} ({event_names})
            SELECT {", ".join(["%s"] * len(_EVENT_FIELDS))} WHERE {is_open}
        ),
        delivery AS (
            INSERT INTO {quote(Delivery._meta.db_table)} ({column_names})
            SELECT {column_names} FROM candidate WHERE {is_open} AND webhook_id <> ALL (%s::uuid[])
            RETURNING id, webhook_id, event_id, max_attempts, retry_policy
        ),
        entry AS ({entries} RETURNING webhook_id)
        SELECT webhook_id, NULL FROM entry
        UNION ALL
        SELECT webhook_id, filter::text FROM candidate WHERE NOT %s AND filter IS NOT NULL"""
    decided = Slot("is_decided")
    event_params = [Slot(field.name) for field in _EVENT_FIELDS]
    return sql, [*params, *event_params, decided, decided, Slot("refused"), *entry_params, decided]


@lru_cache(maxsize=16)
def _statements(using: str, *, has_owner: bool, policies: tuple[str, ...]) -> list[Statement]:
    """Return the statements that insert an event, find filters, insert deliveries and insert queue entries."""
    quote = connections[using].ops.quote_name
    names = ", ".join(quote(field.column) for field in _EVENT_FIELDS)
    marks = ", ".join(["%s"] * len(_EVENT_FIELDS))
    insert = f"INSERT INTO {quote(Event._meta.db_table)} ({names}) VALUES ({marks})"
    filtered = _webhooks(using, has_owner=has_owner).filter(filter__isnull=False).values_list("pk", "filter")
    return [
        (insert, [Slot(field.name) for field in _EVENT_FIELDS]),
        _compiled(filtered, using),
        _insert_deliveries(using, has_owner=has_owner),
        _insert_entries(using, quote(Delivery._meta.db_table), only="event_id = %s"),
    ]


def _insert_deliveries(using: str, *, has_owner: bool, refused: Sequence[Any] = ()) -> Statement:
    quote = connections[using].ops.quote_name
    names, columns = _delivery_columns()
    webhooks = _webhooks(using, has_owner=has_owner)
    if refused:
        webhooks = webhooks.exclude(pk__in=[f"wh_{webhook_id}" for webhook_id in refused])
    select, params = _compiled(webhooks.values_list(*columns), using)
    return f"INSERT INTO {quote(Delivery._meta.db_table)} ({', '.join(map(quote, names))}) {select}", params


def _delivery_columns() -> tuple[Sequence[str], Sequence[Any]]:
    """Return the names of a delivery's columns, and their values for a webhook."""
    digits = Substr(MD5(Concat(Slot("seed"), Cast("pk", models.TextField()))), 1, RANDOM_HEX_DIGITS)
    columns: dict[str, Any] = {
        "id": Cast(Concat(Slot("time"), digits), IdField(prefix="dlv")),
        "event_id": Slot("id"),
        "webhook_id": models.F("pk"),
        "kind": models.Value(Delivery.Kind.EVENT),
        "state": models.Value(Delivery.State.PENDING),
        "state_reason": models.Value(""),
        "attempt_count": models.Value(0),
        "last_result": models.Value(""),
        "max_attempts": _by_policy(lambda policy: policy.max_attempts),
        "retry_policy": _by_policy(pack_policy),
        "created_at": UtcNow(),
    }
    return list(columns), list(columns.values())


def _webhooks(using: str, *, has_owner: bool) -> models.QuerySet[Webhook]:
    event = RoutedEvent(type=Slot("type"), owner_id=Slot("owner") if has_owner else None)
    return webhooks_for(event, using).order_by()


def _compiled(rows: models.QuerySet[Any, Any], using: str) -> Statement:
    sql, params = rows.query.get_compiler(using).as_sql()
    return sql, list(params)


def _policies() -> tuple[str, ...]:
    return tuple(map(pack_policy, known_policies().values()))


def _by_policy(value: Callable[[BaseRetryPolicy], Any]) -> models.Case:
    """Return the SQL of a value that depends on a webhook's retry policy."""
    cases = [
        models.When(retry_policy=name, then=models.Value(value(policy))) for name, policy in known_policies().items()
    ]
    return models.Case(*cases, default=models.Value(value(retry_policy())))


def _insert_entries(using: str, source: str, *, only: str = "") -> Statement:
    """Return the statement that queues the deliveries of ``source``, optionally only those of the event."""
    quote = connections[using].ops.quote_name
    now, params = Event.objects.using(using).all().query.get_compiler(using).compile(UtcNow())
    columns = ("delivery_id", "webhook_id", "event_id", "kind", "attempt", "max_attempts", "retry_policy", "due_at")
    values = f"id, webhook_id, event_id, '{Delivery.Kind.EVENT}', 0, max_attempts, retry_policy, {now}"
    select = f"SELECT {values} FROM {source}"
    sql = f"INSERT INTO {quote(QueueEntry._meta.db_table)} ({', '.join(map(quote, columns))}) {select}"
    return f"{sql} WHERE {only}" if only else sql, [*params, *([Slot("id")] if only else [])]


_EVENT_FIELDS: Sequence[Any] = Event._meta.concrete_fields
