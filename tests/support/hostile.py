"""Hostile values for the columns of a row, as fixtures, data migrations and raw SQL can store them.

Every database refuses some of the values. The others are stored, one in a row of its own for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, connection, models, transaction
from django.utils import timezone

from webhooks_app.encryption import encrypt
from webhooks_app.models import Delivery, Event, QueueEntry, QueueLane, SigningKey, Webhook

from .rows import EVENT_TYPE, URL, emit_one

KEYS = {"id", "webhook", "delivery"}
"""The columns that tell which row is whose. A row without them belongs to nothing."""

TEXTS = (
    "",
    "x",
    "x" * 40,
    "x" * 2000,
    "x" * 100_000,
    "\0",
    "\n\r",
    "\x9b31m💥",
    "https://[bad",
    "https://a:b@[::1",
    "-1",
)
NAMES = ("unknown", "active", "disabled", "event", "verification", "retry_notice", "webhook", "2xx", "name:1,x,nan")
NUMBERS = (-1, 0, 1, 255, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**62, -(2**62), "x", "")
FLOATS = (0, -1.0, 5e-324, 1e308, "NaN", "Infinity", "-Infinity", "x")
TRUTHS = (2, -1, "x", "")
TIMES = (
    *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2026-01-01", "0000-00-00 00:00:00"),
    *("infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-12-31", "2026-01-01 00:00:00+15:59", "x", "", "0", 5),
)
JSONS = (
    *("null", "0", "5", '"x"', "true", "[]", "{}", "[1]", "[null]", '["x"]', '[["x"]]', "[[1,2,3]]", '[["x","y"]]'),
    *('{"x":1}', '{"x":[1]}', '{"1":[1,"x"]}', '{"1":["x",1e308]}', '{"1":[1e308,1e308]}', '{"$and":{}}', "{", ""),
    *("[" * 400 + "]" * 400, json.dumps("x" * 70_000)),
)


def values_for(field: Any) -> Sequence[Any]:
    if isinstance(field, models.JSONField):
        return JSONS
    if isinstance(field, models.DateTimeField):
        return TIMES
    if isinstance(field, models.BooleanField):
        return TRUTHS
    if isinstance(field, models.FloatField):
        return FLOATS
    if isinstance(field, models.IntegerField):
        return NUMBERS
    if field.is_relation:
        return ("0" * 32, "f" * 32, 2**62, "x", "")
    return (*TEXTS, *NAMES)


def columns_of(model: type[models.Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if field.name not in KEYS and not field.generated]


def key_of(model: type[models.Model], delivery: Delivery) -> tuple[str, str]:
    """Return the column and the digits that find the row of this delivery in a table."""
    if model in (Delivery, QueueEntry):
        return model._meta.pk.column, delivery.pk[-32:]
    if model is Event:
        return "id", delivery.event_id[-32:]
    return ("id" if model is Webhook else "webhook_id"), delivery.webhook_id[-32:]


def store(model: type[models.Model], field: Any, value: Any, delivery: Delivery) -> None:
    """Store a value in a column of a delivery's row, unless the database refuses it."""
    key, digits = key_of(model, delivery)
    quote = connection.ops.quote_name
    sql = f"UPDATE {quote(model._meta.db_table)} SET {quote(field.column)} = %s WHERE {quote(key)} = %s"
    with suppress(DatabaseError, ValueError, OverflowError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, [value, digits])


def make_victims(owner: Any, number: int, **fields: Any) -> list[Delivery]:
    """Queue deliveries, each of an event of its own to a webhook of its own, with these fields."""
    body, key = emit_one(owner).body, encrypt("whsec_of_a_test_1234567890")
    fields = {"owner": owner, "url": URL, "event_types": ["file.deleted"], "status": "active", **fields}
    webhooks = Webhook.objects.bulk_create([Webhook(**fields) for _ in range(number)])
    SigningKey.objects.bulk_create([SigningKey(webhook=each, scheme="native", encrypted_key=key) for each in webhooks])
    QueueLane.objects.ensure([each.pk for each in webhooks])
    events = Event.objects.bulk_create(
        [Event(type=EVENT_TYPE, owner=owner, body=body, created_at=timezone.now()) for _ in webhooks]
    )
    pairs = zip(events, webhooks, strict=True)
    with transaction.atomic():
        deliveries = Delivery.objects.bulk_create([Delivery(event=event, webhook=hook) for event, hook in pairs])
        QueueEntry.objects.add(deliveries)
    return deliveries


def spoiled(
    model: type[models.Model], make: Callable[[int], list[Delivery]], leave: Sequence[str] = ()
) -> list[Delivery]:
    """Make a delivery for each hostile value of each column of a table, and store the value in its row.

    ``leave`` are columns to leave as they are.
    """
    cases = [
        (field, value)
        for field in columns_of(model)
        if field.name not in leave
        for value in [*values_for(field), *([None] if field.null else [])]
    ]
    deliveries = make(len(cases))
    for (field, value), delivery in zip(cases, deliveries, strict=True):
        store(model, field, value, delivery)
    return deliveries
