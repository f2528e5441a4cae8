"""The queue's statements for PostgreSQL: a whole batch travels as one JSON document and is a table there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ..attempt_log import AttemptLog
from ..claim import Finished
from ..lanes import Lane, Pick
from .portable import ATTEMPT_FIELDS, PortableStatements, attempt_values

ATTEMPT_TYPES = {
    "id": "uuid",
    "delivery": "uuid",
    "number": "smallint",
    "started_at": "timestamptz",
    "duration_ms": "integer",
    "timestamp": "bigint",
    "response_status": "smallint",
    "response_headers": "jsonb",
}
"""The type of each column of the log that is not text."""


class PostgresqlStatements(PortableStatements):
    def pick_due(self, lanes: Sequence[Lane], now: datetime) -> list[Pick]:
        if not lanes:
            return []
        columns = ", ".join(f"due.{column}" for column in self.columns_of_picks)
        sql = f"""
            SELECT {columns}
            FROM json_to_recordset(%s::json) AS lane (webhook_id uuid, quota integer, kinds text[])
            CROSS JOIN LATERAL (
                SELECT * FROM {self.deliveries}
                WHERE {self.pending} AND webhook_id = lane.webhook_id AND next_attempt_at <= %s
                    AND (kind = ANY (lane.kinds) OR claimed_at IS NOT NULL)
                ORDER BY next_attempt_at
                LIMIT lane.quota
                FOR UPDATE SKIP LOCKED
            ) AS due"""
        rows = [
            {"webhook_id": _uuid(lane.webhook_id), "quota": lane.quota, "kinds": [kind.value for kind in lane.kinds]}
            for lane in lanes
        ]
        return self.picks(self.fetch(sql, [json.dumps(rows), now]))

    def take(self, delivery_ids: Sequence[str], now: datetime, lease_end: datetime) -> None:
        sql = f"""
            UPDATE {self.deliveries}
            SET attempt_count = attempt_count + 1, claimed_at = %s, next_attempt_at = %s
            WHERE id = ANY (%s::uuid[])"""
        self.execute(sql, [now, lease_end, _uuid_array(delivery_ids)])

    def save_steps(self, finished: Sequence[Finished], now: datetime) -> set[str]:
        sql = f"""
            UPDATE {self.deliveries} AS delivery
            SET state = step.state, next_attempt_at = step.next_attempt_at, claimed_at = NULL,
                finished_at = CASE WHEN step.next_attempt_at IS NULL THEN %s::timestamptz END
            FROM json_to_recordset(%s::json)
                AS step (id uuid, number smallint, state text, next_attempt_at timestamptz)
            WHERE delivery.id = step.id AND delivery.attempt_count = step.number
                AND delivery.{self.pending} AND delivery.claimed_at IS NOT NULL
            RETURNING delivery.id"""
        rows = [
            {
                "id": _uuid(item.claim.delivery_id),
                "number": item.claim.number,
                "state": item.step.state.value,
                "next_attempt_at": item.step.next_attempt_at,
            }
            for item in finished
        ]
        saved = self.fetch(sql, [now, json.dumps(rows, default=str)])
        return {self._read_delivery_id(delivery_id) for (delivery_id,) in saved}

    def save_attempts(self, logs: Sequence[AttemptLog]) -> None:
        rows = [dict(zip(ATTEMPT_FIELDS, attempt_values(log), strict=True)) for log in logs]
        for row in rows:
            row["id"], row["delivery"] = _uuid(row["id"]), _uuid(row["delivery"])
        types = ", ".join(f"{self.quote(name)} {ATTEMPT_TYPES.get(name, 'text')}" for name in ATTEMPT_FIELDS)
        columns = ", ".join(self.columns_of_attempts)
        sql = f"INSERT INTO {self.attempts} ({columns}) SELECT * FROM json_to_recordset(%s::json) AS log ({types})"
        self.execute(sql, [json.dumps(rows, default=str)])


def _uuid(public_id: str) -> str:
    """Return an identifier without its prefix, as PostgreSQL reads a UUID."""
    return public_id[-32:]


def _uuid_array(public_ids: Iterable[str]) -> Any:
    """Return a PostgreSQL array as text: hexadecimal digits need no quoting."""
    return "{" + ",".join(map(_uuid, public_ids)) + "}"
