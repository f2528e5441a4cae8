"""The queue's statements in SQL for every database: results of claims, and the facts that workers share.

The statements for looks and claims build on it, and on its conversions of identifiers and times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from string import Template
from typing import Any, ClassVar, TypeAlias

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from ...database.sql import CompiledValues, Slot, writing
from ...models import (
    Delivery,
    DeliveryAttempt,
    Event,
    QueueEntry,
    QueueLane,
    SigningKey,
    Tally,
    Webhook,
    WorkerSession,
)
from ...models.fields import compact_json
from ...models.limits import LONG_AGO
from ...reasons import as_stored
from ..claim import Finished
from ..outcome import MAX_MESSAGE_LENGTH, AttemptLog, Headers, State

ATTEMPT_FIELDS = tuple(name.removesuffix("_id") for name in AttemptLog._fields)

MAX_PARAMS = 999
"""Parameters per statement, within the limit of every SQLite version."""

IDS_AT_A_TIME = 512
"""Most ids in a compiled query, a power of two."""

LANE_COLUMNS = [field.attname for field in QueueLane._meta.concrete_fields]

Query: TypeAlias = Callable[[str, Sequence[Slot]], "models.QuerySet[Any, Any]"]


def statement(name: str) -> Template:
    """Return a long statement from its file, without comments, which a server would store and write to its logs."""
    text = Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
    return Template(re.sub(r"(?m)^ *--.*\n", "", text))


@lru_cache(maxsize=64)
def _compiled(query: Query, using: str, number: int) -> CompiledValues:
    """Return a query for this number of ids."""
    return CompiledValues(query(using, [Slot(str(place)) for place in range(number)]))


def lanes_of(using: str, ids: Sequence[Slot]) -> Any:
    """Return lanes in the order of locks. A condition on the object, not on its key, would convert slots to ids."""
    return QueueLane.objects.using(using).filter(webhook__id__in=ids).order_by("pk")


def _locked_lanes(using: str, ids: Sequence[Slot]) -> models.QuerySet[Any, Any]:
    rows: models.QuerySet[Any, Any] = lanes_of(using, ids).select_for_update()
    return rows.values_list(*LANE_COLUMNS)


class ResultsSql:
    """Statements that end claims: by results, with their attempts, retries and tallies, or because a worker is dead.

    Others store the numbers of claims in lanes. Identifiers and times are converted here, because Django's fields take
    longer than the database.
    """

    def __init__(self, using: str) -> None:
        self.using = using
        self.tables = {
            "deliveries": self.quote(Delivery._meta.db_table),
            "attempts": self.quote(DeliveryAttempt._meta.db_table),
            "webhooks": self.quote(Webhook._meta.db_table),
            "entries": self.quote(QueueEntry._meta.db_table),
            "lanes": self.quote(QueueLane._meta.db_table),
            "keys": self.quote(SigningKey._meta.db_table),
            "events": self.quote(Event._meta.db_table),
        }
        """The quoted names of tables for ``statement``."""
        self.entries, self.lanes = self.tables["entries"], self.tables["lanes"]
        self.deliveries, self.attempts = self.tables["deliveries"], self.tables["attempts"]
        self.pending = f"state = '{State.PENDING.value}'"
        self.time_zone = self.connection.timezone or UTC

    slow_claims_apart: ClassVar[timedelta] = timedelta(0)
    """The time between two claims from slow webhooks."""

    probes_hint: ClassVar[str] = ""
    """A hint after the name of the queue's table, to read probes by their index."""

    changes_are_free: ClassVar[bool] = False
    """Whether ``changes_sql`` requires no server."""

    @property
    def changes_sql(self) -> str:
        """A query for the newest delivery, from one index entry. Its result changes with every queued delivery."""
        return f"SELECT delivery_id FROM {self.entries} ORDER BY delivery_id DESC LIMIT 1"

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.using]

    def quote(self, name: str) -> str:
        return self.connection.ops.quote_name(name)

    def writing(self) -> AbstractContextManager[None]:
        return writing(self.using, Delivery)

    def fetch(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def fetch_prepared(self, sql: str, types: Mapping[str, str], values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a frequent statement. ``types`` contains PostgreSQL's type of each parameter."""
        return self.fetch(sql, values)

    def fetch_batch(self, sql: str, params: Sequence[Any], *, columns: int) -> Sequence[Sequence[Any]]:
        """Return many rows in any order. All ``columns`` contain texts or numbers."""
        return self.fetch(sql, params)

    def public_id(self, prefix: str, column: str) -> str:
        """Return the SQL expression for an identifier in the form expected by ``read_id``."""
        return column

    def read_id(self, prefix: str, value: Any) -> str:
        return f"{prefix}_{value}"

    def write_id(self, public_id: str) -> str:
        """Return an identifier in the database's form, without its prefix."""
        return public_id[-32:]

    def readable_time(self, column: str) -> str:
        """Return the SQL expression for a time as ``read_time`` expects it."""
        return column

    def read_time(self, value: datetime | str | None) -> datetime | None:
        """Return a time of the database. An unreadable one counts as long ago, so that its delivery ends."""
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            return moment.replace(tzinfo=self.time_zone)
        except (AttributeError, TypeError, ValueError):  # SQLite stores any value
            return LONG_AGO

    def write_time(self, moment: datetime) -> str:
        return str(moment.astimezone(self.time_zone).replace(tzinfo=None))

    def _rows_of(self, query: Query, ids: Sequence[str]) -> list[list[Any]]:
        """Return the rows of a query for these ids. It is compiled once for each power of two of their number."""
        found: list[list[Any]] = []
        for start in range(0, len(ids), IDS_AT_A_TIME):
            page = [self.write_id(pk) for pk in ids[start : start + IDS_AT_A_TIME]]
            number = 1 << (len(page) - 1).bit_length()
            page += page[-1:] * (number - len(page))
            found += _compiled(query, self.using, number).fetch({str(place): pk for place, pk in enumerate(page)})
        return found

    def _execute_for(self, sql: str, values: Sequence[Any], ids: Sequence[str], condition: str) -> None:
        """Execute a statement for the rows with these ids. ``condition`` contains ``%s`` for their list."""
        if ids:
            with self.connection.cursor() as cursor:
                cursor.execute(f"{sql} WHERE {condition % ', '.join(['%s'] * len(ids))}", [*values, *ids])

    def publish(self, worker: int, numbers: Mapping[str, tuple[int, bool | None]], leased_until: datetime) -> None:
        """Store this worker's number of claims, and a changed pace, by webhook for the other workers."""
        with self.writing():
            rows = self._rows_of(_locked_lanes, sorted(numbers))
            changed = [QueueLane.from_db(self.using, LANE_COLUMNS, row) for row in rows]
            for lane in changed:
                lane.in_flight = lane.claims
                lane.in_flight.pop(str(worker), None)
                if number := numbers[lane.pk][0]:
                    lane.in_flight[str(worker)] = number, leased_until.timestamp()
            self._save_lanes(changed)
            for pace in (True, False):
                if found := [pk for pk, (_, is_fast) in numbers.items() if is_fast is pace]:
                    QueueLane.objects.using(self.using).filter(pk__in=found).update(is_fast=pace)

    def end_claims(self, worker: int, seen_at: datetime, now: datetime) -> int | None:
        """End the leases of a worker. Return their number, or None if its heartbeat is newer than ``seen_at``.

        A concurrent heartbeat waits for the end of the transaction, and then finds its row deleted. Lanes are locked
        before entries, as in a claim.
        """
        with self.writing():
            rows = WorkerSession.objects.using(self.using).filter(pk=worker, seen_at=seen_at)
            if not rows.delete()[0]:
                return None
            lanes = QueueLane.objects.using(self.using).filter(in_flight__has_key=str(worker))
            changed = list(lanes.order_by("pk").select_for_update())
            for lane in changed:
                del lane.in_flight[str(worker)]
            self._save_lanes(changed)
            return self._end_leases(worker, now)

    def _end_leases(self, worker: int, now: datetime) -> int:
        entries = QueueEntry.objects.using(self.using)
        held = entries.filter(worker=worker, leased_until__gt=now)
        ids = sorted(held.values_list("pk", flat=True))
        entries.claimed().lock(ids)
        pages = [ids[start : start + MAX_PARAMS // 2] for start in range(0, len(ids), MAX_PARAMS // 2)]
        return sum(held.filter(pk__in=page).update(leased_until=now) for page in pages)

    def _save_lanes(self, lanes: Sequence[QueueLane]) -> None:
        """Store the claims and the slots of locked lanes. ``bulk_update`` would take ten times as long."""
        rows = [
            (
                compact_json(lane.in_flight),
                lane.next_slot_at and self.write_time(lane.next_slot_at),
                self.write_id(lane.webhook_id),
            )
            for lane in lanes
        ]
        if rows:
            with self.connection.cursor() as cursor:
                cursor.executemany(
                    f"UPDATE {self.lanes} SET in_flight = %s, next_slot_at = %s WHERE webhook_id = %s", rows
                )

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


def _column(model: type[models.Model], name: str) -> str:
    field: Any = model._meta.get_field(name)
    column: str = field.column
    return column
