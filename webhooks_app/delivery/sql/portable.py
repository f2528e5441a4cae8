"""The queue's statements in SQL that SQLite, MariaDB and MySQL understand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from ...database.sql import writing
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
from ..attempt_log import AttemptLog, Headers
from ..claim import Finished
from ..lanes import FIRST_ENTRIES, LANE_NAMES, MAX_LANES, WEBHOOK_FIELDS, Ask, DueWebhook, Lane, Pick, Picked, Terms
from ..outcome import State
from ..signing import LaneKey

MAX_PARAMS = 999
"""To a statement: every SQLite takes as many."""

NO_WEBHOOK_ID = "wh_" + "0" * 32
ATTEMPT_FIELDS = tuple(name.removesuffix("_id") for name in AttemptLog._fields)


class LockedLane(NamedTuple):
    """A lane that is claimed from, its row, and how many deliveries of which kinds."""

    lane: Lane
    row: QueueLane
    room: int
    kinds: Sequence[Delivery.Kind]


class PortableSql:
    """Reads and writes many deliveries at once.

    Identifiers and times are converted here rather than by Django's fields, which take longer than the database.
    """

    def __init__(self, using: str) -> None:
        self.using = using
        self.deliveries = self.quote(Delivery._meta.db_table)
        self.attempts = self.quote(DeliveryAttempt._meta.db_table)
        self.webhooks = self.quote(Webhook._meta.db_table)
        self.entries = self.quote(QueueEntry._meta.db_table)
        self.lanes = self.quote(QueueLane._meta.db_table)
        self.keys = self.quote(SigningKey._meta.db_table)
        self.pending = f"state = '{State.PENDING.value}'"
        self.time_zone = self.connection.timezone or UTC
        self.columns_of_attempts = ", ".join(self.quote(_column(DeliveryAttempt, name)) for name in ATTEMPT_FIELDS)

    slow_claims_apart: ClassVar[timedelta] = timedelta(0)
    """The time between two claims from slow webhooks."""

    changes_are_free: ClassVar[bool] = False
    """``changes_sql`` asks no server."""

    @property
    def changes_sql(self) -> str:
        """The query whose answer changes when something is queued: for the newest delivery, one entry of an index."""
        return f"SELECT delivery_id FROM {self.entries} ORDER BY delivery_id DESC LIMIT 1"

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.using]

    def quote(self, name: str) -> str:
        return self.connection.ops.quote_name(name)

    def writing(self) -> AbstractContextManager[None]:
        return writing(self.using, Delivery)

    def due_webhooks(self, now: datetime, *, after: str | None) -> list[DueWebhook]:
        """Return a page of the webhooks with pending deliveries, in the order of their ids, behind ``after``.

        A page of fewer than ``MAX_LANES`` is the last. The first index entries of each webhook are read: a loose index
        scan, spelt as a recursion, because no database makes one of ``SELECT DISTINCT``. The deliveries in flight come
        first in it, and there are never more of them than the webhook's limit.
        """
        following = f"SELECT webhook_id FROM {self.entries} WHERE webhook_id > {{}} ORDER BY webhook_id LIMIT 1"
        sql = f"""
            WITH RECURSIVE found (webhook_id, number) AS (
                SELECT ({following.format("%(after)s")}), 1
                UNION ALL
                SELECT ({following.format("found.webhook_id")}), number + 1
                FROM found WHERE found.webhook_id IS NOT NULL AND number < {MAX_LANES}
            )
            SELECT {self.public_id("wh", "found.webhook_id")}, CASE WHEN webhook.paused_at IS NULL THEN (
                    SELECT due_at FROM {self.entries}
                    WHERE webhook_id = found.webhook_id AND (claimed_at IS NULL OR leased_until <= %(now)s)
                    ORDER BY due_at LIMIT 1
                ) END,
                webhook.owner_id, lane.webhook_id IS NOT NULL, lane.is_fast,
                webhook.deleted_at IS NOT NULL OR webhook.status IN ('disabled', 'failed')
            FROM found
            JOIN {self.webhooks} AS webhook ON webhook.id = found.webhook_id
            LEFT JOIN {self.lanes} AS lane ON lane.webhook_id = found.webhook_id
            WHERE found.webhook_id IS NOT NULL"""
        values = {"after": self.write_id(after or NO_WEBHOOK_ID), "now": self.write_time(now)}
        rows = self.fetch_prepared(sql, {"after": "uuid", "now": "timestamptz"}, values)
        return [
            DueWebhook(
                self.read_id("wh", pk),
                self.read_time(due_at),
                owner_id,
                bool(has_lane),
                None if is_fast is None else bool(is_fast),
                bool(is_stopped),
            )
            for pk, due_at, owner_id, has_lane, is_fast, is_stopped in rows
        ]

    def lost_claims(self, webhook_ids: Sequence[str], now: datetime) -> dict[str, int]:
        """Return the number of lost claims by webhook, of at most ``MAX_LANES`` webhooks; those without are left out.

        Only the first entries of each are read, however long its backlog is.
        """
        branch = f"""
            SELECT webhook_id, COUNT(*) FROM (
                SELECT webhook_id, claimed_at, leased_until FROM {self.entries} WHERE webhook_id = %s
                ORDER BY due_at LIMIT {FIRST_ENTRIES}
            ) entries_{{}} WHERE claimed_at IS NOT NULL AND leased_until <= %s GROUP BY webhook_id"""
        sql = " UNION ALL ".join(branch.format(place) for place in range(len(webhook_ids)))
        params = list(chain(*((self.write_id(pk), self.write_time(now)) for pk in webhook_ids)))
        return {self.read_id("wh", pk): number for pk, number in self.fetch(sql, params)} if sql else {}

    def claim(self, asks: Sequence[Ask], terms: Terms) -> Picked:
        """Claim the deliveries that are due longest of each webhook, up to its fair share and its limits.

        Webhooks that another worker is claiming from are left out. A claim moves the attempt number on and lasts until
        ``terms.leased_until``. Lost claims are among the picks, of whatever kind, and so are expired deliveries.
        """
        with self.writing():
            locked = self._lock_lanes(asks, terms)
            rows = self._pick(locked, terms)
            self._claim(rows, terms)
            picks = [self._read_pick(row) for row in rows]
            self._write_lanes(locked, picks, asks, terms)
            return Picked(
                [found.lane for found in locked], picks, self.events({p.event_id for p in picks if p.event_id})
            )

    def events(self, event_ids: Iterable[str]) -> dict[str, tuple[str, bytes]]:
        """Return the type and the body of each event that still exists, by its id."""
        ids = list(event_ids)
        if not ids:
            return {}
        rows = Event.objects.using(self.using).filter(pk__in=ids).order_by()
        return {pk: (type_, body.encode()) for pk, type_, body in rows.values_list("pk", "type", "body")}

    def release(
        self, ids: Iterable[str], worker: int, number: int, claimed_at: datetime, due_at: datetime | None = None
    ) -> None:
        """Return claims to the queue as they were, or due at this time, if they are still the same."""
        entries = QueueEntry.objects.using(self.using).filter(pk__in=list(ids))
        later = {"due_at": due_at} if due_at else {}
        entries.filter(worker=worker, attempt=number, claimed_at=claimed_at).update(
            attempt=number - 1, claimed_at=None, leased_until=None, worker=None, **later
        )

    def publish(self, worker: int, numbers: Mapping[str, tuple[int, bool | None]], leased_until: datetime) -> None:
        """Replace the values that other workers see: by webhook the number of this one's claims, and a changed pace."""
        with self.writing():
            lanes = QueueLane.objects.using(self.using).filter(pk__in=numbers).order_by("pk").select_for_update()
            changed = list(lanes)
            for lane in changed:
                lane.in_flight.pop(str(worker), None)
                if number := numbers[lane.pk][0]:
                    lane.in_flight[str(worker)] = number, leased_until.timestamp()
            QueueLane.objects.using(self.using).bulk_update(changed, ["in_flight"])
            for pace in (True, False):
                if found := [pk for pk, (_, is_fast) in numbers.items() if is_fast is pace]:
                    QueueLane.objects.using(self.using).filter(pk__in=found).update(is_fast=pace)

    def end_claims(self, worker: int, seen_at: datetime, now: datetime) -> int | None:
        """End the leases of a worker whose last heartbeat is this one; return how many, None if it has a newer one.

        A heartbeat waits for the end of the transaction, and finds its row removed. Lanes are locked before entries, as
        by a claim.
        """
        with self.writing():
            rows = WorkerSession.objects.using(self.using).filter(pk=worker, seen_at=seen_at)
            if not rows.delete()[0]:
                return None
            lanes = QueueLane.objects.using(self.using).filter(in_flight__has_key=str(worker))
            changed = list(lanes.order_by("pk").select_for_update())
            for lane in changed:
                del lane.in_flight[str(worker)]
            QueueLane.objects.using(self.using).bulk_update(changed, ["in_flight"], batch_size=MAX_PARAMS // 4)
            return self._end_leases(worker, now)

    def _end_leases(self, worker: int, now: datetime) -> int:
        held = QueueEntry.objects.using(self.using).filter(worker=worker, leased_until__gt=now)
        ids = sorted(held.values_list("pk", flat=True))  # in the order in which results are recorded
        pages = [ids[start : start + MAX_PARAMS // 2] for start in range(0, len(ids), MAX_PARAMS // 2)]
        return sum(held.filter(pk__in=page).update(leased_until=now) for page in pages)

    def save(self, finished: Sequence[Finished], now: datetime) -> set[tuple[str, int]]:
        """Write the attempts whose claim is still good, and what follows; return the keys of these claims.

        To be called within ``writing``. The entries of the queue are changed first, then the deliveries.
        """
        claimed = self._still_claimed(finished)
        valid = [item for item in finished if item.claim.key in claimed]
        self._end_entries([item for item in valid if item.step.state is not State.PENDING])
        self._save_retries([item for item in valid if item.step.next_attempt_at is not None])
        groups: dict[tuple[str, str, int], list[str]] = {}
        for item in valid:
            outcome = item.step.state.value, item.attempt.result, item.claim.number
            groups.setdefault(outcome, []).append(self.write_id(item.claim.delivery_id))
        for (state, result, number), ids in groups.items():
            ended_at = None if state == State.PENDING else self.write_time(now)
            self._execute_for(
                f"UPDATE {self.deliveries} SET state = %s, last_result = %s, attempt_count = %s, finished_at = %s",
                [state, result, number, ended_at],
                ids,
                f"id IN (%s) AND {self.pending}",
            )
        self._save_attempts([item.attempt for item in valid])
        return claimed

    def save_tally(self, counts: str, now: datetime) -> None:
        """Append the counts of a batch; to be called in the transaction that writes it."""
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

    def fetch_prepared(self, sql: str, types: Mapping[str, str], values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that is executed often; ``types`` has PostgreSQL's type of each parameter."""
        return self.fetch(sql, values)

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

    def _lock_lanes(self, asks: Sequence[Ask], terms: Terms) -> list[LockedLane]:
        """Lock the lanes that no other worker is claiming from."""
        features = self.connection.features
        rows = QueueLane.objects.using(self.using).filter(pk__in=[ask.webhook_id for ask in asks]).order_by()
        if features.has_select_for_update:
            rows = rows.select_for_update(skip_locked=features.has_select_for_update_skip_locked)
        locked = {row.webhook_id: row for row in rows}
        webhooks = Webhook.objects.using(self.using).filter(pk__in=locked).order_by()
        keys = self._keys(locked)
        asked = {ask.webhook_id: ask for ask in asks}
        found = []
        for values in webhooks.values_list(*WEBHOOK_FIELDS):
            row, ask = locked[values[0]], asked[values[0]]
            lane = Lane(**dict(zip(LANE_NAMES, values, strict=True)), worker=terms.worker, claimed_at=terms.now)
            lane.keys = keys.get(lane.webhook_id, ())
            lane.next_slot_at = row.next_slot_at
            lane.max_in_flight = 1 if ask.is_unknown else lane.max_in_flight or ask.cap
            in_flight = ask.own + row.claims_of_others(terms.worker, terms.now)
            if ask.lost_only:
                found.append(LockedLane(lane, row, ask.room, ()))
            else:
                found.append(LockedLane(lane, row, lane.room(ask.room, in_flight, terms.now), lane.kinds(terms.now)))
        return found

    def _keys(self, webhook_ids: Iterable[str]) -> Mapping[str, Sequence[LaneKey]]:
        """Return the signing keys of webhooks, the current ones first."""
        found: dict[str, list[LaneKey]] = {}
        keys = SigningKey.objects.using(self.using).filter(webhook__in=list(webhook_ids)).order_by("-pk")
        for webhook_id, scheme, token, until in keys.values_list(
            "webhook_id", "scheme", "encrypted_key", "valid_until"
        ):
            found.setdefault(webhook_id, []).append(LaneKey(scheme, token, until))
        return found

    def _pick(self, locked: Sequence[LockedLane], terms: Terms) -> Sequence[Sequence[Any]]:
        columns = "delivery_id, webhook_id, event_id, kind, attempt, max_attempts, claimed_at, expires_at, retry_policy"
        now = self.write_time(terms.now)
        lost = "OR leased_until <= %s" if terms.lost_again_at else ""
        branches: list[str] = []
        params: list[Any] = []
        for lane, _, room, kinds_of_lane in locked:
            if room <= 0:
                continue
            kinds = [kind.value for kind in kinds_of_lane] or [""]
            marks = ", ".join(["%s"] * len(kinds))
            branches.append(
                f"SELECT * FROM (SELECT {columns} FROM {self.entries} WHERE webhook_id = %s AND due_at <= %s"
                f" AND ((claimed_at IS NULL AND (kind IN ({marks}) OR expires_at <= %s)) {lost})"
                f" ORDER BY due_at LIMIT {int(room)}) lane_{len(branches)}"
            )
            params += [self.write_id(lane.webhook_id), now, *kinds, now, *([now] if lost else [])]
        return self.fetch_batch(" UNION ALL ".join(branches), params, columns=9) if branches else []

    def _claim(self, rows: Sequence[Sequence[Any]], terms: Terms) -> None:
        now = self.write_time(terms.now)
        new = [row[0] for row in rows if row[6] is None]
        lost = [row[0] for row in rows if row[6] is not None]
        self._execute_for(
            f"UPDATE {self.entries} SET attempt = attempt + 1, claimed_at = %s, leased_until = %s, worker = %s",
            [now, self.write_time(terms.leased_until), terms.worker],
            new,
            "delivery_id IN (%s) AND claimed_at IS NULL",
        )
        if terms.lost_again_at is not None:
            self._execute_for(
                f"UPDATE {self.entries} SET leased_until = %s, worker = %s",
                [self.write_time(terms.lost_again_at), terms.worker],
                lost,
                "delivery_id IN (%s) AND claimed_at IS NOT NULL",
            )

    def _read_pick(self, row: Sequence[Any]) -> Pick:
        delivery_id, webhook_id, event_id, kind, number, max_attempts, claimed_at, expires_at, policy = row
        return Pick(
            self.read_id("dlv", delivery_id),
            self.read_id("wh", webhook_id),
            self.read_id("evt", event_id) if event_id else None,
            kind,
            number if claimed_at else number + 1,
            max_attempts,
            self.read_time(claimed_at),
            self.read_time(expires_at),
            policy,
        )

    def _write_lanes(
        self,
        locked: Sequence[LockedLane],
        picks: Sequence[Pick],
        asks: Sequence[Ask],
        terms: Terms,
    ) -> None:
        """Publish the number of claims for the other workers, and count them against the rate limits."""
        numbers = Counter(pick.webhook_id for pick in picks if pick.lost_since is None)
        own = {ask.webhook_id: ask.own for ask in asks}
        changed = []
        for lane, row, _, _ in locked:
            if not (number := numbers[lane.webhook_id]):
                continue
            held = row.held_by_others(terms.worker, terms.now)
            mine = own[lane.webhook_id] + number, terms.leased_until.timestamp()
            row.in_flight = {**held, str(terms.worker): mine}
            if lane.limit is not None:
                row.next_slot_at = lane.next_slot_at = lane.limit.after(number, terms.now).next_slot_at
            changed.append(row)
        QueueLane.objects.using(self.using).bulk_update(changed, ["in_flight", "next_slot_at"])

    def _execute_for(self, sql: str, values: Sequence[Any], ids: Sequence[str], condition: str) -> None:
        """Execute a statement for the rows with these ids that meet the condition, in which ``%s`` is their list."""
        if ids:
            with self.connection.cursor() as cursor:
                cursor.execute(f"{sql} WHERE {condition % ', '.join(['%s'] * len(ids))}", [*values, *ids])

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
        """Return the columns of an attempt, as this database takes them."""
        return tuple(
            log._replace(
                delivery_id=self.write_id(log.delivery_id),
                started_at=self.write_time(log.started_at),  # type: ignore[arg-type]
                response_headers=json_of(log.response_headers),  # type: ignore[arg-type]
                timings=json_of_timings(log.timings),  # type: ignore[arg-type]
            )
        )


@lru_cache(maxsize=64)
def json_of(headers: Headers) -> str:
    return compact_json(headers)


def json_of_timings(timings: Mapping[str, int]) -> str:
    return compact_json(dict(timings)) if timings else "{}"


def _column(model: type[Model], name: str) -> str:
    field: Any = model._meta.get_field(name)
    column: str = field.column
    return column
