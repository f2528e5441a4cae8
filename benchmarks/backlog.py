"""Large numbers of rows, copied by PostgreSQL from a row that the app has inserted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from webhooks_app.models import Delivery, Event, QueueEntry, Webhook

# 12 digits of the time and 20 random ones, like the app's own identifiers.
_NEW_ID = "(%(digits)s || substr(md5(random()::text || n::text), 1, 20))::uuid"


def copy_event(event: Event, count: int) -> None:
    """Insert ``count`` copies of an event, with new identifiers in their rows and bodies."""
    body = "replace(pattern.body, %(pattern)s, 'evt_' || replace(new.id::text, '-', ''))"
    _insert(
        Event,
        {"id": "new.id", "body": body},
        f"""
        {Event._meta.db_table} AS pattern,
        (SELECT {_NEW_ID} AS id FROM generate_series(1, %(count)s) AS n OFFSET 0) AS new
        WHERE pattern.id = %(id)s
        """,
        {"pattern": event.pk, "id": _uuid(event), "count": count},
    )


def copy_delivery(delivery: Delivery, webhooks: Sequence[Webhook], *, times: int = 1) -> int:
    """Insert copies of a delivery: ``times`` for each other event of its owner and each webhook. Return the number."""
    assert delivery.event is not None
    return _insert(
        Delivery,
        {"id": _NEW_ID, "event_id": "event.id", "webhook_id": "webhook.id"},
        f"""
        {Delivery._meta.db_table} AS pattern, {Webhook._meta.db_table} AS webhook, {Event._meta.db_table} AS event,
        generate_series(1, %(times)s) AS n
        WHERE pattern.id = %(id)s AND webhook.id = ANY(%(webhooks)s)
        AND event.owner_id = %(owner)s AND event.id <> pattern.event_id
        """,
        {
            "id": _uuid(delivery),
            "webhooks": [_uuid(webhook) for webhook in webhooks],
            "owner": delivery.event.owner_id,
            "times": times,
        },
    )


def queue_copies(delivery: Delivery, count: int) -> None:
    """Insert pending deliveries like this one, of the same event, whose entries follow its own in their order."""
    values = {"id": _uuid(delivery), "count": count}
    _insert(
        Delivery,
        {"id": _NEW_ID},
        f"{Delivery._meta.db_table} AS pattern, generate_series(1, %(count)s) AS n WHERE pattern.id = %(id)s",
        values,
    )
    place = "pattern.place + row_number() OVER (ORDER BY delivery.id)"
    _insert(
        QueueEntry,
        {"delivery_id": "delivery.id", "place": place},
        f"""
        {QueueEntry._meta.db_table} AS pattern, {Delivery._meta.db_table} AS delivery
        WHERE pattern.delivery_id = %(id)s AND delivery.id <> pattern.delivery_id
        AND delivery.event_id = pattern.event_id AND delivery.webhook_id = pattern.webhook_id
        """,
        values,
    )


def analyze() -> None:
    """Update the planner's statistics, as autovacuum does within a minute."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _insert(model: type[Any], changed: Mapping[str, str], source: str, parameters: Mapping[str, Any]) -> int:
    columns = [field.column for field in model._meta.concrete_fields if not field.generated]
    values = [changed.get(column, f"pattern.{column}") for column in columns]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {source}",
            {"digits": f"{time.time_ns() // 1_000_000:012x}", **parameters},
        )
        return int(cursor.rowcount)


def _uuid(row: Any) -> Any:
    return row._meta.pk.get_db_prep_value(row.pk, connection)
