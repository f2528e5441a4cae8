"""The queue's statements for PostgreSQL: a whole batch is an array or a COPY, and every value arrives as text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connections

from ...models import Event, Webhook
from ..attempt_log import AttemptLog
from ..claim import Finished
from ..lanes import LANE_FIELDS, Lane, Pick
from .portable import PortableStatements, json_of, json_of_timings


def uses_psycopg3(using: str) -> bool:
    """Tell whether the database is asked by psycopg 3, which who has another database need not have."""
    connection: Any = connections[using]
    return bool(connection.vendor == "postgresql" and connection.Database.__name__ == "psycopg")


class PostgresqlStatements(PortableStatements):
    def lock_lanes(self, webhook_ids: Sequence[str]) -> list[tuple[Any, ...]]:
        # In no order: who skips what others have locked waits for nobody.
        table = self.quote(Webhook._meta.db_table)
        columns = ", ".join([self.public_id("wh", "id"), *LANE_FIELDS[1:]])
        sql = f"SELECT {columns} FROM {table} WHERE id = ANY (%s::uuid[]) FOR NO KEY UPDATE SKIP LOCKED"
        return self.fetch(sql, [_array(map(self.write_id, webhook_ids))])

    def claim(
        self, lanes: Sequence[Lane], now: datetime, lease_end: datetime, lost_again_at: datetime | None
    ) -> list[Pick]:
        lost = "OR claimed_at IS NOT NULL" if lost_again_at else "AND claimed_at IS NULL"
        # The ids are an array, so that the planner looks each up in the index, whatever it thinks of the table.
        sql = f"""
            UPDATE {self.deliveries}
            SET attempt_count = CASE WHEN claimed_at IS NULL THEN attempt_count + 1 ELSE attempt_count END,
                next_attempt_at = CASE WHEN claimed_at IS NULL THEN %(lease_end)s ELSE %(lost_again_at)s END,
                claimed_at = COALESCE(claimed_at, %(now)s)
            WHERE id = ANY (ARRAY(
                SELECT due.id
                FROM json_to_recordset(%(lanes)s::json)
                    AS lane (webhook_id uuid, quota integer, max_in_flight integer, kinds text[])
                CROSS JOIN LATERAL (
                    SELECT count(*) AS number FROM {self.deliveries}
                    WHERE claimed_at IS NOT NULL AND webhook_id = lane.webhook_id AND next_attempt_at > %(now)s
                ) AS in_flight
                CROSS JOIN LATERAL (
                    SELECT id FROM {self.deliveries}
                    WHERE {self.pending} AND webhook_id = lane.webhook_id AND next_attempt_at <= %(now)s
                        AND ((kind = ANY (lane.kinds) OR expires_at <= %(now)s) {lost})
                    ORDER BY next_attempt_at
                    LIMIT GREATEST(0, LEAST(lane.quota, lane.max_in_flight - in_flight.number))
                    FOR UPDATE SKIP LOCKED
                ) AS due
            ))
            RETURNING {self.public_id("dlv", "id")}, {self.public_id("wh", "webhook_id")},
                {self.public_id("evt", "event_id")}, kind, attempt_count, max_attempts,
                CASE WHEN claimed_at <> %(now)s THEN claimed_at END, expires_at"""
        values = {
            "lanes": json.dumps([_lane(lane) for lane in lanes]),
            "now": now,
            "lease_end": lease_end,
            "lost_again_at": lost_again_at,
        }
        return list(map(Pick._make, self.fetch(sql, values)))

    def events(self, event_ids: Iterable[str]) -> dict[str, tuple[str, bytes]]:
        table = self.quote(Event._meta.db_table)
        columns = ", ".join([self.public_id("evt", "id"), "type", "body"])
        sql = f"SELECT {columns} FROM {table} WHERE id = ANY (%s::uuid[])"
        rows = self.fetch(sql, [_array(map(self.write_id, event_ids))])
        return {event_id: (type_, body.encode()) for event_id, type_, body in rows}

    def save(self, finished: Sequence[Finished], now: datetime) -> set[tuple[str, int]]:
        sql = f"""
            UPDATE {self.deliveries} AS delivery
            SET state = step.state, last_result = step.result,
                next_attempt_at = step.next_attempt_at, claimed_at = NULL,
                finished_at = CASE WHEN step.next_attempt_at IS NULL THEN %s::timestamptz END
            FROM unnest(%s::uuid[], %s::smallint[], %s::text[], %s::text[], %s::timestamptz[])
                AS step (id, number, state, result, next_attempt_at)
            WHERE delivery.id = step.id AND delivery.attempt_count = step.number
                AND delivery.{self.pending} AND delivery.claimed_at IS NOT NULL
            RETURNING {self.public_id("dlv", "delivery.id")}, step.number"""
        columns = [
            _array([self.write_id(item.claim.delivery_id) for item in finished]),
            _array([str(item.claim.number) for item in finished]),
            _array([item.step.state.value for item in finished]),
            _array([item.attempt.result for item in finished]),
            _array([_time(item.step.next_attempt_at) for item in finished]),
        ]
        saved = {(delivery_id, number) for delivery_id, number in self.fetch(sql, [now, *columns])}
        self._save_attempts([item.attempt for item in finished if item.claim.key in saved])
        return saved

    def public_id(self, prefix: str, column: str) -> str:
        return f"'{prefix}_' || encode(uuid_send({column}), 'hex')"

    def read_id(self, prefix: str, value: Any) -> str:
        return str(value)

    def _save_attempts(self, logs: Sequence[AttemptLog]) -> None:
        if not logs:
            return
        lines = "".join([_copy_line(log) for log in logs])
        sql = f"COPY {self.attempts} ({self.columns_of_attempts}) FROM STDIN"
        with self.connection.cursor() as cursor, self.connection.wrap_database_errors:
            if uses_psycopg3(self.using):
                with cursor.copy(sql) as copy:
                    copy.write(lines)
            else:
                cursor.copy_expert(sql, io.StringIO(lines))


def _lane(lane: Lane) -> dict[str, Any]:
    return {
        "webhook_id": lane.webhook_id[-32:],
        "quota": lane.quota,
        "max_in_flight": lane.max_in_flight,
        "kinds": [kind.value for kind in lane.kinds],
    }


def _array(values: Iterable[str]) -> str:
    """Return a PostgreSQL array as text, of values that need no quoting: digits, words, NULL."""
    return "{" + ",".join(values) + "}"


def _time(moment: datetime | None) -> str:
    return f'"{moment.astimezone(UTC).isoformat()}"' if moment else "NULL"


def _copy_line(log: AttemptLog) -> str:
    """Return a row of COPY's text format, in the order of the log's fields."""
    return (
        f"{log.id[-32:]}\t{log.delivery_id[-32:]}\t{log.number}\t{log.result}\t{_text(log.message)}"
        f"\t{log.started_at.isoformat()}\t{_text(log.url)}\t{_number(log.duration_ms)}\t{_number(log.timestamp)}"
        f"\t{log.signature}\t{log.challenge}\t{_number(log.response_status)}\t{_text(json_of(log.response_headers))}"
        f"\t{_text(log.response_body)}\t{_text(log.retry_after)}\t{log.peer}\t{json_of_timings(log.timings)}"
        f"\t{log.previous_signature}\t{_text(log.agent)}\n"
    )


def _number(value: int | None) -> str:
    return "\\N" if value is None else str(value)


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _text(text: str) -> str:
    return text.translate(_ESCAPES) if text else ""
