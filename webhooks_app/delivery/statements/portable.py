"""The queue's statements in SQL that SQLite, MariaDB and MySQL understand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Model

from ...models import Delivery, DeliveryAttempt
from ...models.sql import writing
from ..attempt_log import AttemptLog
from ..claim import Finished
from ..lanes import MAX_LANES, Lane, Pick
from ..outcome import State

PICK_FIELDS = tuple(name.removesuffix("_id") if name != "delivery_id" else "id" for name in Pick.__slots__)
ATTEMPT_FIELDS = tuple(name.removesuffix("_id") for name in AttemptLog.__slots__)
NO_WEBHOOK_ID = "wh_" + "0" * 32


class PortableStatements:
    """Reads and writes many deliveries at once. ``now`` is what decides whether one is due."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.deliveries = self.quote(Delivery._meta.db_table)
        self.attempts = self.quote(DeliveryAttempt._meta.db_table)
        self.pending = f"state = '{State.PENDING.value}'"
        self.columns_of_picks = self._columns(Delivery, PICK_FIELDS)
        self.columns_of_attempts = self._columns(DeliveryAttempt, ATTEMPT_FIELDS)
        self._pick_readers = [self._reader(Delivery, name) for name in PICK_FIELDS]
        self._read_webhook_id = self._reader(Delivery, "webhook")
        self._read_delivery_id = self._reader(Delivery, "id")
        self._read_time = self._reader(Delivery, "next_attempt_at")
        self._attempt_writers = [self._writer(DeliveryAttempt, name) for name in ATTEMPT_FIELDS]

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.using]

    def quote(self, name: str) -> str:
        return self.connection.ops.quote_name(name)

    def writing(self) -> AbstractContextManager[None]:
        return writing(self.using, Delivery)

    def pending_webhooks(self, *, after: str | None) -> list[tuple[str, datetime | None]]:
        """Return a page of the webhooks with something pending, behind ``after``, each with when its first is due.

        A page of fewer than ``MAX_LANES`` is the last. Two index entries are read for each webhook: a loose index
        scan, spelt as a recursion, because no database makes one of ``SELECT DISTINCT``.
        """
        pending = f"FROM {self.deliveries} WHERE {self.pending}"
        following = f"SELECT webhook_id {pending} AND webhook_id > %s ORDER BY webhook_id LIMIT 1"
        sql = f"""
            WITH RECURSIVE lane (webhook_id, number) AS (
                SELECT ({following}), 1
                UNION ALL
                SELECT ({following.replace("%s", "lane.webhook_id")}), number + 1
                FROM lane WHERE lane.webhook_id IS NOT NULL AND number < {MAX_LANES}
            )
            SELECT webhook_id, (
                SELECT next_attempt_at {pending} AND webhook_id = lane.webhook_id ORDER BY next_attempt_at LIMIT 1
            )
            FROM lane WHERE webhook_id IS NOT NULL"""
        start = self._writer(Delivery, "webhook")(after or NO_WEBHOOK_ID)
        rows = self.fetch(sql, [start])
        return [(self._read_webhook_id(webhook_id), self._read_time(due_at)) for webhook_id, due_at in rows]

    def pick_due(self, lanes: Sequence[Lane], now: datetime) -> list[Pick]:
        """Return the deliveries that are due longest in each lane, up to its quota.

        Claims that were lost are among them, of whatever kind.
        """
        if not lanes:
            return []
        columns = ", ".join(self.columns_of_picks)
        branches, params = [], []
        for number, lane in enumerate(lanes):
            kinds = ", ".join("%s" for _ in lane.kinds)
            branches.append(
                f"SELECT * FROM (SELECT {columns} FROM {self.deliveries} WHERE {self.pending} AND webhook_id = %s"
                f" AND next_attempt_at <= %s AND (kind IN ({kinds}) OR claimed_at IS NOT NULL)"
                f" ORDER BY next_attempt_at LIMIT {int(lane.quota)}) lane_{number}"
            )
            webhook_id = self._writer(Delivery, "webhook")(lane.webhook_id)
            params += [webhook_id, self._time(now), *(kind.value for kind in lane.kinds)]
        return self.picks(self.fetch(" UNION ALL ".join(branches), params))

    def take(self, delivery_ids: Sequence[str], now: datetime, lease_end: datetime) -> None:
        """Claim deliveries, which moves their attempt numbers on."""
        Delivery.objects.using(self.using).filter(pk__in=delivery_ids).update(
            attempt_count=F("attempt_count") + 1, claimed_at=now, next_attempt_at=lease_end
        )

    def save_steps(self, finished: Sequence[Finished], now: datetime) -> set[str]:
        """Write what follows from attempts whose claim is still good; return the ids of their deliveries."""
        claimed = self._still_claimed(finished)
        valid = [item for item in finished if item.claim.delivery_id in claimed]
        deliveries = Delivery.objects.using(self.using)
        for state in (State.SUCCEEDED, State.GIVEN_UP):
            ended = [item.claim.delivery_id for item in valid if item.step.state == state]
            if ended:
                deliveries.filter(pk__in=ended).update(
                    state=state, finished_at=now, claimed_at=None, next_attempt_at=None
                )
        self._save_retries([item for item in valid if item.step.next_attempt_at is not None])
        return claimed

    def save_attempts(self, logs: Sequence[AttemptLog]) -> None:
        """Insert the log of attempts."""
        columns = self.columns_of_attempts
        marks = ", ".join("%s" for _ in columns)
        rows = [
            [write(value) for write, value in zip(self._attempt_writers, attempt_values(log), strict=True)]
            for log in logs
        ]
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {self.attempts} ({', '.join(columns)}) VALUES ({marks})", rows)

    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)

    def fetch(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def picks(self, rows: Iterable[Sequence[Any]]) -> list[Pick]:
        names, readers = Pick.__slots__, self._pick_readers
        return [
            Pick(**{name: read(value) for name, read, value in zip(names, readers, row, strict=True)}) for row in rows
        ]

    def _still_claimed(self, finished: Sequence[Finished]) -> set[str]:
        claimed = (
            Delivery.objects.using(self.using)
            .filter(pk__in=[item.claim.delivery_id for item in finished], claimed_at__isnull=False)
            .pending()
            .select_for_update()
        )
        numbers = dict(claimed.order_by("pk").values_list("pk", "attempt_count"))
        return {item.claim.delivery_id for item in finished if numbers.get(item.claim.delivery_id) == item.claim.number}

    def _save_retries(self, retries: Sequence[Finished]) -> None:
        write_id = self._writer(Delivery, "id")
        rows = [(self._time(item.step.next_attempt_at), write_id(item.claim.delivery_id)) for item in retries]
        if rows:
            sql = f"UPDATE {self.deliveries} SET claimed_at = NULL, next_attempt_at = %s WHERE id = %s"
            with self.connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    def _time(self, moment: datetime | None) -> Any:
        return self._writer(Delivery, "next_attempt_at")(moment)

    def _columns(self, model: type[Model], names: Iterable[str]) -> list[str]:
        return [self.quote(_field(model, name).column) for name in names]

    def _writer(self, model: type[Model], name: str) -> Callable[[Any], Any]:
        """Return what turns a field's value into the database's."""
        field = _field(model, name)
        return lambda value: field.get_db_prep_save(value, self.connection)

    def _reader(self, model: type[Model], name: str) -> Callable[[Any], Any]:
        """Return what turns the database's value of a field into Python's."""
        column = _field(model, name).get_col(model._meta.db_table)
        converters = [*self.connection.ops.get_db_converters(column), *column.get_db_converters(self.connection)]
        if not converters:
            return _unchanged

        def read(value: Any) -> Any:
            for convert in converters:
                value = convert(value, column, self.connection)
            return value

        return read


def attempt_values(log: AttemptLog) -> list[Any]:
    """Return the values of a log in the order of ``ATTEMPT_FIELDS``."""
    return [getattr(log, name) for name in AttemptLog.__slots__]


def _field(model: type[Model], name: str) -> Any:
    return model._meta.get_field(name)


def _unchanged(value: Any) -> Any:
    return value
