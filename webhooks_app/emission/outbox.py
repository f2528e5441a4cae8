"""The outbox: an event and its deliveries, written by a fixed number of statements for any number of webhooks.

The statements are compiled once, because Django needs several times longer to compile them than the database needs to
execute them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

from django.db import connections, models
from django.db.models.functions import MD5, Cast, Concat, Substr

from ..conf import known_policies, retry_policy
from ..database.dialects import dialect_of
from ..database.sql import PreparedStatement, Slot, UtcNow, fill, with_names
from ..models import Delivery, Event, EventReference, QueueEntry, Webhook
from ..models.delivery_columns import COPIED, FROM_POLICY, defaults
from ..models.fields import IdField
from ..models.order import OrderNumber, group_of, number_sql
from ..models.webhook import Order
from ..protocol.ids import RANDOM_HEX_DIGITS, time_digits
from ..retry import BaseRetryPolicy, pack_policy
from ..routing import FilterResult, RoutedEvent, evaluate_filter, webhooks_for

UNPREPARED_EVENTS = 5
"""Events of a connection before the statement is prepared. Many connections of web processes serve one request."""

NO_FILTERS = {"evaluated": "{}", "refused": "{}"}
"""The arrays of webhooks in the first execution of the statement, which most often is the only one."""

Fetched = Sequence[tuple[Any, ...]]

Statement = tuple[str, Sequence[Any]]
"""SQL and its parameters, which include slots."""


class Queued(NamedTuple):
    """The number of an event's deliveries, and their webhooks if the database returned them."""

    number: int
    webhook_ids: Sequence[str] = ()


def insert_event(event: Event, using: str) -> Queued:
    """Insert an event and a queued delivery for each webhook that receives it."""
    if not dialect_of(using).inserts_in_with:
        return _insert_in_steps(event, using)
    (queued,) = _insert_at_once([event], using)
    return queued


def insert_events(events: Iterable[Event], using: str) -> list[Queued]:
    """Insert events in this order, within a transaction."""
    if not dialect_of(using).inserts_in_with:
        return [_insert_in_steps(event, using) for event in events]
    runs = groupby(events, key=lambda event: (event.type, event.owner_id, bool(event.unsaved_references)))
    return [queued for _, run in runs for queued in _insert_at_once(list(run), using)]


def _insert_at_once(events: Sequence[Event], using: str) -> list[Queued]:
    """Insert each of these events, which have the same webhooks, with one statement.

    If there are filters, the statement returns them instead, and is executed again. The first event shows whether there
    are any. If so, each of the others waits for its predecessor, so that all keep their order.
    """
    connection, like = connections[using], events[0]
    prepare = partial(
        _statement,
        using,
        has_owner=like.owner_id is not None,
        policies=_policies(),
        with_references=bool(like.unsaved_references),
    )
    statement = prepare()
    values = [{**_values(event, using), **NO_FILTERS} for event in events]
    found = [statement.fetch(connection, values[0])]
    if len(events) > 1 and not _filters(found[0]):
        found += statement.fetch_each(connection, values[1:])
    return [_evaluated(event, own, prepare, rows, using) for event, own, rows in zip_longest(events, values, found)]


def _values(event: Event, using: str) -> dict[str, Any]:
    """Return the database values of a new event, and those that the identifiers of its deliveries are made of."""
    connection = connections[using]
    values = {
        field.name: None if (raw := getattr(event, field.attname)) is None else field.get_db_prep_save(raw, connection)
        for field in _EVENT_FIELDS
    }
    values |= {"time": time_digits(), "seed": secrets.token_hex(16)}
    if event.unsaved_references:
        values["references"] = json.dumps(list(event.unsaved_references))
    return values


def _filters(rows: Fetched) -> list[tuple[Any, str]]:
    return [(webhook_id, source) for webhook_id, source in rows if source is not None]


def _evaluated(
    event: Event, values: dict[str, Any], prepare: Callable[..., PreparedStatement], rows: Fetched | None, using: str
) -> Queued:
    """Return what the statement inserted, with the results of the filters that it returned instead, if any."""
    connection = connections[using]
    statement = prepare()
    results: dict[Any, FilterResult] = {}
    arrays: Mapping[str, str] = {}
    while True:
        if rows is None:
            rows = statement.fetch(connection, {**values, **arrays})
        filters = _filters(rows)
        if not filters:
            _mark_as_saved(event, using)
            return Queued(len(rows), [f"wh_{webhook_id.hex}" for webhook_id, _ in rows])
        rows = None
        results |= _results([(webhook_id, f"wh_{webhook_id.hex}", source) for webhook_id, source in filters], event)
        arrays = {"evaluated": _array(results), "refused": _array(_with(FilterResult.MISMATCH, results))}
        if unsure := _with(FilterResult.PENDING, results):
            statement = prepare(with_unsure=True)
            arrays["unsure"] = _array(unsure)


def _mark_as_saved(event: Event, using: str) -> None:
    event._state.adding, event._state.db = False, using


def _array(ids: Iterable[Any]) -> str:
    """Return these ids as the text of a PostgreSQL array."""
    return f"{{{','.join(map(str, ids))}}}"


def _insert_in_steps(event: Event, using: str) -> Queued:
    """Insert within a transaction. The event comes first, because it takes the write lock of SQLite."""
    values = _values(event, using)
    has_owner = event.owner_id is not None
    insert, find_special, insert_deliveries, insert_entries, insert_ordered = _statements(
        using, has_owner=has_owner, policies=_policies()
    )
    with connections[using].cursor() as cursor:
        for sql, params in (insert, find_special):
            cursor.execute(sql, fill(params, values))
        special = cursor.fetchall()
        filters = [(f"wh_{pk}", f"wh_{pk}", source) for pk, source, _ in special if source is not None]
        results = _results(filters, event)
        if refused := _with(FilterResult.MISMATCH, results):
            insert_deliveries = _insert_deliveries(using, has_owner=has_owner, refused=refused)
        if any(group_of(order, event.ordering_key) is not None for _, _, order in special):
            insert_entries = insert_ordered
            (values["place"],) = OrderNumber.objects.using(using).take()
        for sql, params in (insert_deliveries, insert_entries):
            cursor.execute(sql, fill(params, values))
        number = int(cursor.rowcount)
    if unsure := _with(FilterResult.PENDING, results):
        deliveries = Delivery.objects.using(using).filter(event=event.pk, webhook__in=unsure).order_by()
        QueueEntry.objects.using(using).filter(pk__in=list(deliveries.values_list("pk", flat=True))).await_filter()
    if event.unsaved_references:
        references = [EventReference(value=value, event=event) for value in event.unsaved_references]
        # MariaDB treats two references that differ only in case as equal.
        EventReference.objects.using(using).bulk_create(references, ignore_conflicts=True)
    _mark_as_saved(event, using)
    return Queued(number)


def _results(filters: Sequence[tuple[Any, str, str]], event: Event) -> dict[Any, FilterResult]:
    """Return the results of filters by the first item: a key, the webhook's id and the filter."""
    data = event.data if filters else {}
    return {key: evaluate_filter(webhook_id, source, data) for key, webhook_id, source in filters}


def _with(result: FilterResult, results: Mapping[Any, FilterResult]) -> list[Any]:
    return [key for key, found in results.items() if found is result]


def is_one_statement(using: str) -> bool:
    """Return True if ``insert_event`` needs no transaction around it."""
    return dialect_of(using).inserts_in_with


@lru_cache(maxsize=32)
def _statement(
    using: str,
    *,
    has_owner: bool,
    policies: tuple[str, ...],
    with_references: bool,
    with_unsure: bool = False,
) -> PreparedStatement:
    """Return the statement that inserts an event, its deliveries and their queue entries.

    It returns a row for each delivery. If a webhook has a filter that is not evaluated yet, it inserts nothing
    and returns these webhooks and filters. It depends on the available retry policies. ``with_references`` also
    inserts the references of the event. ``with_unsure`` holds deliveries whose filter could not be evaluated.
    """
    connection: Any = connections[using]
    quote = connection.ops.quote_name
    names, columns = _delivery_columns()
    webhooks = _webhooks(using, has_owner=has_owner)
    candidates, params = _compiled(webhooks.values_list(*columns, "filter", "order"), using)
    column_names = ", ".join(map(quote, names))
    is_new = "filter IS NOT NULL AND webhook_id NOT IN (SELECT unnest(%s::uuid[]))"
    is_open = f"NOT EXISTS (SELECT 1 FROM candidate WHERE {is_new})"
    is_sent = f"{is_open} AND webhook_id NOT IN (SELECT unnest(%s::uuid[]))"
    is_unsure, place = "webhook_id IN (SELECT unnest(%s::uuid[]))" if with_unsure else "", (str(number_sql(using)), ())
    entries, entry_params = _insert_entries(
        using, "candidate AS delivery", webhook_order='"order"', place=place, unsure=is_unsure
    )
    event_names = ", ".join(quote(field.column) for field in _EVENT_FIELDS)
    references = f"""reference AS (
            INSERT INTO {quote(EventReference._meta.db_table)} (value, event_id)
            SELECT found.value, %s FROM jsonb_array_elements_text(%s) AS found (value) WHERE {is_open}
            ON CONFLICT DO NOTHING
        ),"""
    sql = f"""
        WITH candidate ({column_names}, filter, "order") AS MATERIALIZED ({candidates}),
        event AS (
            INSERT INTO {quote(Event._meta.db_table)} ({event_names})
            SELECT {", ".join(["%s"] * len(_EVENT_FIELDS))} WHERE {is_open}
        ),
        {references if with_references else ""}
        delivery AS (
            INSERT INTO {quote(Delivery._meta.db_table)} ({column_names})
            SELECT {column_names} FROM candidate WHERE {is_sent}
        ),
        entry AS ({entries} WHERE {is_sent} RETURNING webhook_id)
        SELECT webhook_id, NULL FROM entry
        UNION ALL
        SELECT webhook_id, filter::text FROM candidate WHERE {is_new}"""
    evaluated = Slot("evaluated")
    event_params: list[Any] = [Slot(field.name) for field in _EVENT_FIELDS]
    sent_params = [evaluated, Slot("refused")]
    if with_references:
        event_params += [evaluated, Slot("id"), Slot("references")]
    params = [*params, *event_params, evaluated, *sent_params, *entry_params, *sent_params, evaluated]
    named = with_names(sql, params, lambda value: connection.ops.compose_sql("%s", [value]))
    types = {
        **{field.name: field.db_type(connection) for field in _EVENT_FIELDS},
        "time": "text",
        "seed": "text",
        "evaluated": "uuid[]",
        "refused": "uuid[]",
        **({"references": "jsonb"} if with_references else {}),
        **({"unsure": "uuid[]"} if with_unsure else {}),
    }
    return PreparedStatement(named, types, after=UNPREPARED_EVENTS, by_index=False)


@lru_cache(maxsize=16)
def _statements(using: str, *, has_owner: bool, policies: tuple[str, ...]) -> list[Statement]:
    """Return the statements that insert an event, find special webhooks, insert deliveries and their queue entries.

    Special are webhooks with a filter or an order. Of the two statements for entries, the last one is for these.
    """
    quote = connections[using].ops.quote_name
    names = ", ".join(quote(field.column) for field in _EVENT_FIELDS)
    marks = ", ".join(["%s"] * len(_EVENT_FIELDS))
    insert = f"INSERT INTO {quote(Event._meta.db_table)} ({names}) VALUES ({marks})"
    is_special = models.Q(filter__isnull=False) | ~models.Q(order=Order.NONE)
    special = _webhooks(using, has_owner=has_owner).filter(is_special).values_list("pk", "filter", "order")
    deliveries, webhooks = quote(Delivery._meta.db_table), quote(Webhook._meta.db_table)
    source = f"{deliveries} AS delivery"
    joined = f"{source} JOIN {webhooks} AS webhook ON webhook.id = webhook_id"
    insert_entries, params = _insert_entries(using, source)
    insert_ordered, ordered_params = _insert_entries(
        using, joined, webhook_order=f"webhook.{quote('order')}", place=("%s", [Slot("place")])
    )
    return [
        (insert, [Slot(field.name) for field in _EVENT_FIELDS]),
        _compiled(special, using),
        _insert_deliveries(using, has_owner=has_owner),
        (f"{insert_entries} WHERE event_id = %s", [*params, Slot("id")]),
        (f"{insert_ordered} WHERE event_id = %s", [*ordered_params, Slot("id")]),
    ]


def _insert_deliveries(using: str, *, has_owner: bool, refused: Sequence[Any] = ()) -> Statement:
    quote = connections[using].ops.quote_name
    names, columns = _delivery_columns()
    webhooks = _webhooks(using, has_owner=has_owner)
    if refused:
        webhooks = webhooks.exclude(pk__in=refused)
    select, params = _compiled(webhooks.values_list(*columns), using)
    return f"INSERT INTO {quote(Delivery._meta.db_table)} ({', '.join(map(quote, names))}) {select}", params


def _delivery_columns() -> tuple[Sequence[str], Sequence[Any]]:
    """Return the names of a delivery's columns, and their values for a webhook."""
    digits = Substr(MD5(Concat(Slot("seed"), Cast("pk", models.TextField()))), 1, RANDOM_HEX_DIGITS)
    columns: dict[str, Any] = {
        "id": Cast(Concat(Slot("time"), digits), IdField(prefix="dlv")),
        "event_id": Slot("id"),
        "webhook_id": models.F("pk"),
        "created_at": UtcNow(),
        **{name: _by_policy(value) for name, value in FROM_POLICY.items()},
    }
    columns |= {name: models.Value(default) for name, default in defaults(Delivery, besides=columns)}
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


def _insert_entries(
    using: str, source: str, *, webhook_order: str = "", place: Statement = ("", ()), unsure: str = ""
) -> Statement:
    """Return the statement, open for a condition, that queues the deliveries of ``source``, which it names "delivery".

    With ``webhook_order``, the column for it, entries of webhooks with an order have a group, and ``place``. ``unsure``
    is the condition for entries that await the evaluation of a filter.
    """
    quote = connections[using].ops.quote_name
    now, params = Event.objects.using(using).all().query.get_compiler(using).compile(UtcNow())
    copied = [name for name in COPIED if name in _delivery_columns()[0]]
    columns: dict[str, Statement] = {"delivery_id": ("delivery.id", ()), "due_at": (now, params)}
    columns |= {name: (f"delivery.{quote(name)}", ()) for name in copied}
    if unsure:
        columns["due_at"] = f"CASE WHEN {unsure} THEN NULL ELSE {now} END", [Slot("unsure"), *params]
        columns["filter_at"] = f"CASE WHEN {unsure} THEN {now} END", [Slot("unsure"), *params]
    if webhook_order:
        is_ordered = f"{webhook_order} = '{Order.WEBHOOK}' OR {webhook_order} = '{Order.KEY}' AND %s IS NOT NULL"
        order_key = f"CASE {webhook_order} WHEN '{Order.WEBHOOK}' THEN '' WHEN '{Order.KEY}' THEN %s END"
        columns["order_key"] = order_key, [Slot("ordering_key")]
        columns["place"] = f"CASE WHEN {is_ordered} THEN {place[0]} END", [Slot("ordering_key"), *place[1]]
    columns |= {name: ("%s", [default]) for name, default in defaults(QueueEntry, besides=columns)}
    names, values = ", ".join(map(quote, columns)), ", ".join(sql for sql, _ in columns.values())
    sql = f"INSERT INTO {quote(QueueEntry._meta.db_table)} ({names}) SELECT {values} FROM {source}"
    return sql, [param for _, own in columns.values() for param in own]


_EVENT_FIELDS: Sequence[Any] = Event._meta.concrete_fields
