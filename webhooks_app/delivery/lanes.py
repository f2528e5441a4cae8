"""Which webhooks have something due, and which of their deliveries come next.

The deliveries are read in lanes, one for each webhook, so that a long backlog of one is never scanned to find what is
due for another: the cost grows with the number of webhooks that have something pending, not with what they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..models import Delivery, Webhook

State = Delivery.State
Kind = Delivery.Kind

UNVERIFIED_KINDS = (Kind.VERIFICATION, Kind.TEST)
"""What may be sent to a URL that has not passed a handshake: the handshake itself, and tests made by hand."""

MAX_LANES = 400
"""SQLite joins at most 500 SELECTs by UNION ALL."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """A webhook that is locked for claiming, and how many deliveries it may be given now."""

    webhook_id: str
    owner_id: Any
    url: str
    encrypted_secret: str
    retry_notices: bool
    status: str
    deleted: bool
    quota: int

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(Kind) if self.status == Webhook.Status.ACTIVE else UNVERIFIED_KINDS

    @property
    def stop_reason(self) -> str:
        """Why what waits is cancelled rather than sent or held; "" if it is not."""
        if self.deleted:
            return "webhook_deleted"
        stopped = (Webhook.Status.DISABLED, Webhook.Status.FAILED)
        return f"webhook_{self.status}" if self.status in stopped else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """A due delivery as the database has it."""

    delivery_id: str
    webhook_id: str
    event_id: str | None
    kind: str
    attempt_count: int
    max_attempts: int
    next_attempt_at: datetime
    claimed_at: datetime | None
    expires_at: datetime | None


def ready_webhooks(using: str, now: datetime, *, after: str | None, limit: int) -> list[str]:
    """Return the ids of at most ``limit`` webhooks with something due, in order, beginning behind ``after``.

    Reads one index entry for each webhook that has something pending: a loose index scan, spelt as a recursion,
    because no database makes one of ``SELECT DISTINCT``.
    """
    connection = connections[using]
    table, pending = _pending(connection)
    following = f"SELECT webhook_id FROM {table} WHERE {pending} AND webhook_id > %s ORDER BY webhook_id LIMIT 1"
    sql = f"""
        WITH RECURSIVE lane (webhook_id) AS (
            SELECT ({following})
            UNION ALL
            SELECT ({following.replace("%s", "lane.webhook_id")}) FROM lane WHERE lane.webhook_id IS NOT NULL
        )
        SELECT webhook_id FROM lane
        WHERE webhook_id IS NOT NULL AND EXISTS (
            SELECT 1 FROM {table} due
            WHERE due.{pending} AND due.webhook_id = lane.webhook_id AND due.next_attempt_at <= %s
        )
        LIMIT %s"""
    start = _to_database(connection, "webhook_id", after or "wh_" + "0" * 32)
    with connection.cursor() as cursor:
        cursor.execute(sql, [start, _to_database(connection, "next_attempt_at", now), min(limit, MAX_LANES)])
        return [_from_database(connection, "webhook_id", row[0]) for row in cursor.fetchall()]


def pick_due(using: str, lanes: Sequence[Lane], now: datetime) -> list[Pick]:
    """Return the deliveries that are due longest in each lane, up to its quota, in one statement."""
    if not lanes:
        return []
    connection = connections[using]
    table, pending = _pending(connection)
    columns = tuple(Pick.__slots__)
    names = ", ".join("id" if name == "delivery_id" else name for name in columns)
    branches, params = [], []
    for number, lane in enumerate(lanes):
        kinds = ", ".join("%s" for _ in lane.kinds)
        branches.append(
            f"SELECT * FROM (SELECT {names} FROM {table} WHERE {pending} AND webhook_id = %s AND next_attempt_at <= %s"
            f" AND kind IN ({kinds}) ORDER BY next_attempt_at LIMIT {int(lane.quota)}) lane_{number}"
        )
        params += [
            _to_database(connection, "webhook_id", lane.webhook_id),
            _to_database(connection, "next_attempt_at", now),
            *(kind.value for kind in lane.kinds),
        ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(branches), params)
        return [
            Pick(**{name: _from_database(connection, name, value) for name, value in zip(columns, row, strict=True)})
            for row in cursor.fetchall()
        ]


def _pending(connection: BaseDatabaseWrapper) -> tuple[str, str]:
    return connection.ops.quote_name(Delivery._meta.db_table), f"state = '{State.PENDING.value}'"


def _field(name: str) -> Any:
    return Delivery._meta.get_field("id" if name == "delivery_id" else name.removesuffix("_id"))


def _to_database(connection: BaseDatabaseWrapper, name: str, value: Any) -> Any:
    return _field(name).get_db_prep_value(value, connection)


def _from_database(connection: BaseDatabaseWrapper, name: str, value: Any) -> Any:
    expression = _field(name).get_col(Delivery._meta.db_table)
    for convert in (*connection.ops.get_db_converters(expression), *expression.get_db_converters(connection)):
        value = convert(value, expression, connection)
    return value
