"""The queue's statements in SQL that SQLite, MariaDB and MySQL understand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Count, Model

from ...models import Delivery, DeliveryAttempt, Event, Tally, Webhook
from ...models.sql import writing
from ..attempt_log import AttemptLog, Headers
from ..claim import Finished
from ..lanes import LANE_FIELDS, MAX_LANES, Lane, Pick
from ..outcome import State

MAX_PARAMS = 999
"""To a statement: what every SQLite takes."""

NO_WEBHOOK_ID = "wh_" + "0" * 32
ATTEMPT_FIELDS = tuple(name.removesuffix("_id") for name in AttemptLog._fields)


class PortableStatements:
    """Reads and writes many deliveries at once. ``now`` is what decides whether one is due.

    Identifiers and times are converted here rather than by Django's fields, which take longer than the database.
    """

    def __init__(self, using: str) -> None:
        self.using = using
        self.deliveries = self.quote(Delivery._meta.db_table)
        self.attempts = self.quote(DeliveryAttempt._meta.db_table)
        self.webhooks = self.quote(Webhook._meta.db_table)
        self.pending = f"state = '{State.PENDING.value}'"
        self.time_zone = self.connection.timezone or UTC
        self.columns_of_attempts = ", ".join(self.quote(_column(DeliveryAttempt, name)) for name in ATTEMPT_FIELDS)

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
        scan, spelt as a recursion, because no database makes one of ``SELECT DISTINCT``. What is held for a webhook
        that is paused is never due, and is not looked at.
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
            SELECT {self.public_id("wh", "webhook_id")}, CASE
                WHEN webhook_id NOT IN (SELECT id FROM {self.webhooks} WHERE paused_at IS NOT NULL) THEN (
                    SELECT next_attempt_at {pending} AND webhook_id = lane.webhook_id ORDER BY next_attempt_at LIMIT 1
                )
            END
            FROM lane WHERE webhook_id IS NOT NULL"""
        rows = self.fetch(sql, [self.write_id(after or NO_WEBHOOK_ID)])
        return [(self.read_id("wh", webhook_id), self.read_time(due_at)) for webhook_id, due_at in rows]

    def lock_lanes(self, webhook_ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """Lock the webhooks that no other worker is claiming from; return their values in the order of LANE_FIELDS."""
        features = self.connection.features
        webhooks = Webhook.objects.using(self.using).filter(pk__in=webhook_ids).order_by()
        if features.has_select_for_update:
            webhooks = webhooks.select_for_update(
                skip_locked=features.has_select_for_update_skip_locked, no_key=features.has_select_for_no_key_update
            )
        return list(webhooks.values_list(*LANE_FIELDS))

    def claim(
        self, lanes: Sequence[Lane], now: datetime, lease_end: datetime, lost_again_at: datetime | None
    ) -> list[Pick]:
        """Claim the deliveries that are due longest in each lane, up to what its quota and its limit leave.

        A claim moves the attempt number on and lasts until ``lease_end``. Claims that were lost are among the picks, of
        whatever kind; if they are not recorded by ``lost_again_at``, they are picked once more. None leaves them alone.
        Of whatever kind is what has expired, too.
        """
        rows = self._pick(self._with_room(lanes, now), now, with_lost=lost_again_at is not None)
        new = [row[0] for row in rows if row[6] is None]
        lost = [row[0] for row in rows if row[6] is not None]
        self._update(
            "attempt_count = attempt_count + 1, claimed_at = %s, next_attempt_at = %s",
            [self.write_time(now), self.write_time(lease_end)],
            new,
            claimed=False,
        )
        if lost_again_at is not None:
            self._update("next_attempt_at = %s", [self.write_time(lost_again_at)], lost, claimed=True)
        return [
            Pick(
                self.read_id("dlv", delivery_id),
                self.read_id("wh", webhook_id),
                self.read_id("evt", event_id) if event_id else None,
                kind,
                number if claimed_at else number + 1,
                max_attempts,
                self.read_time(claimed_at),
                self.read_time(expires_at),
            )
            for delivery_id, webhook_id, event_id, kind, number, max_attempts, claimed_at, expires_at in rows
        ]

    def events(self, event_ids: Iterable[str]) -> dict[str, tuple[str, bytes]]:
        """Return the type and the body of each event that still exists, by its id."""
        rows = Event.objects.using(self.using).filter(pk__in=list(event_ids)).order_by()
        return {pk: (type_, body.encode()) for pk, type_, body in rows.values_list("pk", "type", "body")}

    def save(self, finished: Sequence[Finished], now: datetime) -> set[tuple[str, int]]:
        """Write the attempts whose claim is still good, and what follows; return the keys of these claims.

        To be called within ``writing``.
        """
        claimed = self._still_claimed(finished)
        valid = [item for item in finished if item.claim.key in claimed]
        ended: dict[tuple[str, str], list[str]] = {}
        for item in valid:
            if item.step.state is not State.PENDING:
                ending = item.step.state.value, item.attempt.result
                ended.setdefault(ending, []).append(self.write_id(item.claim.delivery_id))
        for (state, result), ids in ended.items():
            self._update(
                "state = %s, last_result = %s, finished_at = %s, claimed_at = NULL, next_attempt_at = NULL",
                [state, result, self.write_time(now)],
                ids,
                claimed=True,
            )
        self._save_retries(valid)
        self._save_attempts([item.attempt for item in valid])
        return claimed

    def save_tally(self, counts: str, now: datetime) -> None:
        """Append what a batch counts; to be called in the transaction that writes it."""
        tallies = self.quote(Tally._meta.db_table)
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {tallies} (recorded_at, counts) VALUES (%s, %s)", [self.write_time(now), counts]
            )

    def fetch(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def fetch_batch(self, sql: str, params: Sequence[Any], *, columns: int) -> Sequence[Sequence[Any]]:
        """Return many rows of so many columns, which hold texts and numbers, in any order."""
        return self.fetch(sql, params)

    def public_id(self, prefix: str, column: str) -> str:
        """Return the SQL for an identifier as ``read_id`` takes it."""
        return column

    def read_id(self, prefix: str, value: Any) -> str:
        return f"{prefix}_{value}"

    def write_id(self, public_id: str) -> str:
        """Return an identifier without its prefix, as the database has it."""
        return public_id[-32:]

    def read_time(self, value: datetime | str | None) -> datetime | None:
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=self.time_zone)

    def write_time(self, moment: datetime) -> str:
        return str(moment.astimezone(self.time_zone).replace(tzinfo=None))

    def _with_room(self, lanes: Sequence[Lane], now: datetime) -> list[tuple[Lane, int]]:
        """Return the lanes that may be given something, each with how much."""
        claimed = Delivery.objects.using(self.using).filter(
            webhook__in=[lane.webhook_id for lane in lanes], claimed_at__isnull=False, next_attempt_at__gt=now
        )
        in_flight = dict(claimed.order_by().values_list("webhook_id").annotate(Count("pk")))
        rooms = [(lane, min(lane.quota, lane.max_in_flight - in_flight.get(lane.webhook_id, 0))) for lane in lanes]
        return [(lane, room) for lane, room in rooms if room > 0]

    def _pick(self, rooms: Sequence[tuple[Lane, int]], now: datetime, *, with_lost: bool) -> Sequence[Sequence[Any]]:
        if not rooms:
            return []
        columns = "id, webhook_id, event_id, kind, attempt_count, max_attempts, claimed_at, expires_at"
        lost = "OR claimed_at IS NOT NULL" if with_lost else "AND claimed_at IS NULL"
        branches, params = [], []
        for number, (lane, room) in enumerate(rooms):
            kinds = ", ".join("%s" for _ in lane.kinds)
            branches.append(
                f"SELECT * FROM (SELECT {columns} FROM {self.deliveries} WHERE {self.pending} AND webhook_id = %s"
                f" AND next_attempt_at <= %s AND ((kind IN ({kinds}) OR expires_at <= %s) {lost})"
                f" ORDER BY next_attempt_at LIMIT {int(room)}) lane_{number}"
            )
            moment = self.write_time(now)
            params += [self.write_id(lane.webhook_id), moment, *(kind.value for kind in lane.kinds), moment]
        return self.fetch_batch(" UNION ALL ".join(branches), params, columns=8)

    def _update(self, assignments: str, values: Sequence[Any], ids: Sequence[str], *, claimed: bool) -> None:
        """Change those that are still pending, and claimed or not, as they were when they were read."""
        if ids:
            is_so = f"{self.pending} AND claimed_at IS {'NOT ' if claimed else ''}NULL"
            marks = ", ".join(["%s"] * len(ids))
            with self.connection.cursor() as cursor:
                sql = f"UPDATE {self.deliveries} SET {assignments} WHERE id IN ({marks}) AND {is_so}"
                cursor.execute(sql, [*values, *ids])

    def _still_claimed(self, finished: Sequence[Finished]) -> set[tuple[str, int]]:
        ids = [self.write_id(item.claim.delivery_id) for item in finished]
        marks = ", ".join(["%s"] * len(ids))
        lock = " FOR UPDATE" if self.connection.features.has_select_for_update else ""
        sql = f"""
            SELECT id, attempt_count FROM {self.deliveries}
            WHERE id IN ({marks}) AND {self.pending} AND claimed_at IS NOT NULL ORDER BY id{lock}"""
        numbers = {row[0]: row[1] for row in self.fetch_batch(sql, ids, columns=2)}
        return {item.claim.key for item, pk in zip(finished, ids, strict=True) if numbers.get(pk) == item.claim.number}

    def _save_retries(self, finished: Sequence[Finished]) -> None:
        rows = [
            (item.attempt.result, self.write_time(item.step.next_attempt_at), self.write_id(item.claim.delivery_id))
            for item in finished
            if item.step.next_attempt_at is not None
        ]
        if rows:
            sql = f"""
                UPDATE {self.deliveries} SET claimed_at = NULL, last_result = %s, next_attempt_at = %s WHERE id = %s"""
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
        return (
            self.write_id(log.id),
            self.write_id(log.delivery_id),
            *log[2:5],
            self.write_time(log.started_at),
            *log[6:12],
            json_of(log.response_headers),
            *log[13:16],
            json_of_timings(log.timings),
            *log[17:],
        )


@lru_cache(maxsize=64)
def json_of(headers: Headers) -> str:
    return json.dumps(headers)


def json_of_timings(timings: Mapping[str, int]) -> str:
    return json.dumps(dict(timings)) if timings else "{}"


def _column(model: type[Model], name: str) -> str:
    field: Any = model._meta.get_field(name)
    column: str = field.column
    return column
