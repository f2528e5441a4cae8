"""The outbox: an event and its deliveries, written by statements that do not grow with the number of webhooks.

They are compiled once, because Django takes several times as long for that as the database for carrying them out.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db import connections, models
from django.db.models.functions import MD5, Cast, Concat, Substr

from ..ids import RANDOM_HEX_DIGITS, time_digits
from .delivery import Delivery, configured_max_attempts
from .event import Event
from .fields import IdField
from .sql import Slot, UtcNow, fill
from .webhook import Webhook

Statement = tuple[str, Sequence[Any]]
"""SQL, and its parameters, slots among them."""


def insert_event(event: Event, using: str) -> int:
    """Insert an event, and a delivery for each webhook that listens; return how many these are."""
    connection = connections[using]
    values = {
        **{field.name: field.get_db_prep_save(getattr(event, field.attname), connection) for field in _EVENT_FIELDS},
        "time": time_digits(),
        "seed": secrets.token_hex(16),
        "max_attempts": configured_max_attempts(),
    }
    with connection.cursor() as cursor:
        for sql, params in _statements(using, has_owner=event.owner_id is not None):
            cursor.execute(sql, fill(params, values))
        event._state.adding, event._state.db = False, using
        return int(cursor.rowcount)


def is_one_statement(using: str) -> bool:
    """Tell whether ``insert_event`` needs no transaction around it."""
    return len(_statements(using, has_owner=False)) == 1


@lru_cache(maxsize=16)
def _statements(using: str, *, has_owner: bool) -> list[Statement]:
    event, deliveries = _insert_event(using), _insert_deliveries(using, has_owner=has_owner)
    if connections[using].vendor != "postgresql":
        return [event, deliveries]
    return [(f"WITH event AS ({event[0]}) {deliveries[0]}", [*event[1], *deliveries[1]])]


def _insert_event(using: str) -> Statement:
    quote = connections[using].ops.quote_name
    names = ", ".join(quote(field.column) for field in _EVENT_FIELDS)
    marks = ", ".join("%s" for _ in _EVENT_FIELDS)
    return (
        f"INSERT INTO {quote(Event._meta.db_table)} ({names}) VALUES ({marks})",
        [Slot(field.name) for field in _EVENT_FIELDS],
    )


def _insert_deliveries(using: str, *, has_owner: bool) -> Statement:
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
        "max_attempts": Slot("max_attempts"),
        "next_attempt_at": UtcNow(),
        "created_at": UtcNow(),
    }
    webhooks = Webhook.objects.using(using).listening_to(Slot("type"), Slot("owner") if has_owner else None)
    select, params = webhooks.order_by().values_list(*columns.values()).query.get_compiler(using).as_sql()
    quote = connections[using].ops.quote_name
    names = ", ".join(map(quote, columns))
    return f"INSERT INTO {quote(Delivery._meta.db_table)} ({names}) {select}", params


_EVENT_FIELDS: Sequence[Any] = Event._meta.concrete_fields
