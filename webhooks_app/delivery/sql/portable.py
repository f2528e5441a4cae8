"""The queue's statements in SQL for every database: results of claims, and the differences of MariaDB and SQLite.

PostgreSQL replaces the most frequent ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

from django.db.models import Model

from ...models import DeliveryAttempt, Tally
from ...models.fields import compact_json
from ...reasons import as_stored
from ..claim import Finished
from ..outcome import MAX_MESSAGE_LENGTH, AttemptLog, Headers, State
from .base import MAX_PARAMS
from .claiming import ClaimingSql

ATTEMPT_FIELDS = tuple(name.removesuffix("_id") for name in AttemptLog._fields)

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NULL = "\\N"


class PortableSql(ClaimingSql):
    """Statements that read and write many deliveries at once."""

    @cached_property
    def columns_of_attempts(self) -> str:
        return ", ".join(self.quote(_column(DeliveryAttempt, name)) for name in ATTEMPT_FIELDS)

    def save(self, finished: Sequence[Finished], now: datetime) -> set[tuple[str, int]]:
        """Record the attempts with a valid claim, and update their deliveries. Return the keys of these claims.

        Must be called within ``writing``, with the results in the order of their deliveries. Queue entries are locked
        in that order, and changed before deliveries.
        """
        claimed = self._still_claimed(finished)
        valid = [item for item in finished if item.claim.key in claimed]
        self._end_entries([item for item in valid if item.step.state is not State.PENDING])
        self._save_retries([item for item in valid if item.step.next_attempt_at is not None])
        groups: dict[tuple[str, str, int, bool], list[str]] = {}
        for item in valid:
            outcome = item.step.state.value, item.attempt.result, item.claim.number, item.attempt.is_masked
            groups.setdefault(outcome, []).append(self.write_id(item.claim.delivery_id))
        for (state, *result), ids in groups.items():
            ended_at = None if state == State.PENDING else self.write_time(now)
            self._execute_for(
                f"UPDATE {self.deliveries} SET state = %s, last_result = %s, attempt_count = %s, is_masked = %s, "
                "finished_at = %s",
                [state, *result, ended_at],
                ids,
                f"id IN (%s) AND {self.pending}",
            )
        self._save_attempts([item.attempt for item in valid])
        return claimed

    def save_tally(self, counts: str, now: datetime) -> None:
        """Insert the counts of a batch. Must be called in the batch's transaction."""
        tallies = self.quote(Tally._meta.db_table)
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {tallies} (recorded_at, counts) VALUES (%s, %s)", [self.write_time(now), counts]
            )

    def _still_claimed(self, finished: Sequence[Finished]) -> set[tuple[str, int]]:
        ids = [self.write_id(item.claim.delivery_id) for item in finished]
        marks = ", ".join(["%s"] * len(ids))
        lock = " FOR UPDATE" if self.connection.features.has_select_for_update else ""
        sql = f"""
            SELECT delivery_id, attempt, worker FROM {self.entries}
            WHERE delivery_id IN ({marks}) AND claimed_at IS NOT NULL ORDER BY delivery_id{lock}"""
        claims = {row[0]: (row[1], row[2]) for row in self.fetch_batch(sql, ids, columns=3)}
        return {
            item.claim.key
            for item, pk in zip(finished, ids, strict=True)
            if claims.get(pk) == (item.claim.number, item.claim.lane.worker)
        }

    def _end_entries(self, finished: Sequence[Finished]) -> None:
        ids = [self.write_id(item.claim.delivery_id) for item in finished]
        self._execute_for(f"DELETE FROM {self.entries}", (), ids, "delivery_id IN (%s)")

    def _save_retries(self, finished: Sequence[Finished]) -> None:
        rows = [
            (self.write_time(item.step.next_attempt_at), self.write_id(item.claim.delivery_id))
            for item in finished
            if item.step.next_attempt_at is not None
        ]
        if rows:
            sql = f"""
                UPDATE {self.entries} SET claimed_at = NULL, leased_until = NULL, worker = NULL, due_at = %s
                WHERE delivery_id = %s"""
            with self.connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    def _save_attempts(self, logs: Sequence[AttemptLog]) -> None:
        row = f"({', '.join(['%s'] * len(ATTEMPT_FIELDS))})"
        size = MAX_PARAMS // len(ATTEMPT_FIELDS)
        with self.connection.cursor() as cursor:
            for start in range(0, len(logs), size):
                values = [self._values(log) for log in logs[start : start + size]]
                marks = ", ".join([row] * len(values))
                cursor.execute(
                    f"INSERT INTO {self.attempts} ({self.columns_of_attempts}) VALUES {marks}", list(chain(*values))
                )

    def _values(self, log: AttemptLog) -> tuple[Any, ...]:
        """Return the columns of an attempt in the database's form."""
        return tuple(
            log._replace(
                delivery_id=self.write_id(log.delivery_id),
                message=message_of(log),
                started_at=self.write_time(log.started_at),  # type: ignore[arg-type]
                response_headers=json_of(log.response_headers),  # type: ignore[arg-type]
                timings=json_of_timings(log.timings),  # type: ignore[arg-type]
            )
        )


class MysqlSql(PortableSql):
    probes_hint = "FORCE INDEX (webhooks_queue_probes)"
    """Otherwise they read the whole backlog in the order of due times."""


class SqliteSql(PortableSql):
    """A batch is read as one row of JSON.

    The driver releases the global interpreter lock for every row. The sending thread would acquire it each time.
    """

    slow_claims_apart = timedelta(seconds=0.25)  # each holds the only write lock, for results and emitters too
    changes_are_free = True
    changes_sql = "PRAGMA data_version"
    """A number in shared memory that changes with every commit of another connection."""

    def fetch_batch(self, sql: str, params: Sequence[Any], *, columns: int) -> Sequence[Sequence[Any]]:
        names = ", ".join(f"value_{number}" for number in range(columns))
        wrapped = f"WITH batch ({names}) AS ({sql}) SELECT json_group_array(json_array({names})) FROM batch"
        rows: list[list[Any]] = json.loads(self.fetch(wrapped, params)[0][0])
        return rows


def message_of(log: AttemptLog) -> str:
    return log.message and as_stored(log.message, MAX_MESSAGE_LENGTH)


@lru_cache(maxsize=64)
def json_of(headers: Headers) -> str:
    return compact_json(headers)


def json_of_timings(timings: Mapping[str, int]) -> str:
    return _json_of_pairs(tuple(timings.items())) if timings else "{}"


@lru_cache(maxsize=1024)
def _json_of_pairs(pairs: tuple[tuple[str, int], ...]) -> str:
    return compact_json(dict(pairs))


def _column(model: type[Model], name: str) -> str:
    field: Any = model._meta.get_field(name)
    column: str = field.column
    return column


def copy_line(log: AttemptLog) -> str:
    """Return the row of an attempt, with the columns in the order of ``AttemptLog``."""
    duration, timestamp, status = log.duration_ms, log.timestamp, log.response_status
    return (
        f"{log.delivery_id[-32:]}\t{log.number}\t{log.result}\t{log.message and _text(message_of(log))}"
        f"\t{log.started_at.isoformat()}\t{_text(log.url)}\t{_NULL if duration is None else duration}"
        f"\t{_NULL if timestamp is None else timestamp}\t{log.signatures.translate(_ESCAPES)}\t{log.challenge}"
        f"\t{_NULL if status is None else status}\t{_headers(log.response_headers)}"
        f"\t{log.response_body.translate(_ESCAPES)}\t{log.retry_after and _text(log.retry_after)}\t{log.peer}"
        f"\t{json_of_timings(log.timings)}\t{log.header_names and _text(log.header_names)}\t{_text(log.agent)}"
        f"\t{log.is_masked}\n"
    )


@lru_cache(maxsize=64)
def _headers(headers: Headers) -> str:
    return json_of(headers).translate(_ESCAPES)


@lru_cache(maxsize=1024)
def _text(text: str) -> str:
    """Return an escaped short text. Cached, because URLs and agents repeat."""
    return text.translate(_ESCAPES)
