"""Looks, claims and their ends, in SQL for every database, with the differences of MariaDB and SQLite.

PostgreSQL claims by it for webhooks with an order only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from django.db import models

from ...database.sql import Slot
from ...models import (
    Delivery,
    Event,
    QueueEntry,
    QueueLane,
    SigningKey,
    Webhook,
)
from ...models.hold import KINDS_BY_STATUS, STOPPING
from ...models.order import BEGUN
from ...models.status import PROBES
from ...models.webhook import Order
from ...receiver.verification import VERIFICATION_TYPE
from ..claim import (
    FIRST_ENTRIES,
    HANDSHAKE,
    LANE_NAMES,
    MAX_LANES,
    WEBHOOK_FIELDS,
    Claim,
    Claimed,
    ClaimRequest,
    ClaimTerms,
    DueWebhook,
    Lane,
)
from ..signing import LaneKey
from .results import LANE_COLUMNS, MAX_PARAMS, ResultsSql, lanes_of, statement

NO_WEBHOOK_ID = "wh_" + "0" * 32

DUE_TYPES = {"after": "uuid", "now": "timestamptz", "lanes": "integer"}

STOPPING_STATUSES = ", ".join(f"'{status}'" for status in STOPPING)

IS_ACTIVE = f"webhook.deleted_at IS NULL AND webhook.status = '{Webhook.Status.ACTIVE.value}'"

IS_CHANGING_URL = f"{IS_ACTIVE} AND webhook.pending_url <> ''"
"""The condition for a webhook whose handshakes are sent to its pending URL, during a pause too."""

IS_PROBE = f"kind IN {PROBES}"
"""The condition of an index, with the kinds in its order, which SQLite compares."""

PROBED = {
    kind: [status for status, kinds in KINDS_BY_STATUS.items() if kind in kinds and status != Webhook.Status.ACTIVE]
    for kind in PROBES
}
"""The statuses besides active in which a kind is sent."""

MAX_ATTEMPT_NUMBER = 32_767
"""The largest number of the column. No policy makes so many attempts, but a row may contain it."""

PARKED_AT_A_TIME = 200
"""Maximum number of deliveries of a lane that one claim parks."""

EVENT_ID, CLAIMED_AT, IS_ORDERED, IS_BLOCKED = 2, 6, 9, 10
"""Indexes of columns in a row."""

ClaimedEvent: TypeAlias = tuple[str, bytes, str | None]
"""The type, the body and the traceparent of a claim's event."""

NO_EVENT: Mapping[str | None, ClaimedEvent] = {None: (VERIFICATION_TYPE, b"", None)}
"""The same of a claim without an event."""

MISSING = "", b"", None
"""The same if the event is missing."""

Row: TypeAlias = Sequence[Any]


def _free_lanes(using: str, ids: Sequence[Slot]) -> models.QuerySet[Any, Any]:
    """Lock the lanes that no other transaction has locked, in their order."""
    rows: models.QuerySet[Any, Any] = lanes_of(using, ids).free()
    return rows.values_list(*LANE_COLUMNS)


def _webhooks(using: str, ids: Sequence[Slot]) -> models.QuerySet[Any, Any]:
    return Webhook.objects.using(using).filter(pk__in=ids).order_by().values_list(*WEBHOOK_FIELDS)


def _signing_keys(using: str, ids: Sequence[Slot]) -> models.QuerySet[Any, Any]:
    """Return the signing keys of webhooks, the current ones first."""
    keys = SigningKey.objects.using(using).filter(webhook__id__in=ids).order_by("-pk")
    return keys.values_list("webhook_id", "scheme", "encrypted_key", "valid_until", "signs_from")


def _events(using: str, ids: Sequence[Slot]) -> models.QuerySet[Any, Any]:
    return Event.objects.using(using).filter(pk__in=ids).order_by().values_list("pk", "type", "body", "traceparent")


class LockedLane(NamedTuple):
    """A locked lane with its row, and the number and kinds of deliveries to claim."""

    lane: Lane
    row: QueueLane
    room: int
    kinds: Sequence[Delivery.Kind]
    due_from: datetime | None = None
    lost_only: bool = False

    @property
    def picks(self) -> Sequence[bool]:
        """For each search for its deliveries, whether it is for probes only.

        The handshake of a pending URL is found first, because a long backlog may wait for the URL that it replaces.
        """
        if self.lost_only or (self.lane.is_active and not self.lane.is_changing_url):
            return (False,)
        return (True, False) if self.lane.is_active else (True,)


class PortableSql(ResultsSql):
    """Statements that read and write many deliveries at once: looks, claims and, from the base, their results."""

    def due_webhooks(self, now: datetime, *, after: str | None) -> list[DueWebhook]:
        """Return a page of webhooks with pending deliveries, in the order of their ids, after the id ``after``.

        A page of fewer than ``MAX_LANES`` is the last.
        """
        values = {"after": self.write_id(after or NO_WEBHOOK_ID), "now": self.write_time(now), "lanes": MAX_LANES}
        rows = self.fetch_prepared(self._looking, DUE_TYPES, values)
        return [
            DueWebhook(
                self.read_id("wh", pk),
                min((moment for moment in map(self.read_time, due_at) if moment), default=None),
                owner_id,
                bool(has_lane),
                None if is_fast is None else bool(is_fast),
                bool(is_active),
                bool(is_stopped),
            )
            for pk, owner_id, has_lane, is_fast, is_active, is_stopped, *due_at in rows
        ]

    @cached_property
    def _looking(self) -> str:
        first = f"""
            SELECT {self.readable_time("due_at")} FROM {self.entries} {{}}
            WHERE webhook_id = found.webhook_id AND due_at IS NOT NULL
                AND (claimed_at IS NULL OR leased_until <= %(now)s) {{}}
            ORDER BY due_at LIMIT 1"""
        probes = []
        for kind, statuses in PROBED.items():
            unpaused = "webhook.paused_at IS NULL AND webhook.deleted_at IS NULL"
            is_sent = f"{unpaused} AND webhook.status IN ({', '.join(map(repr, statuses))})"
            if kind == Delivery.Kind.VERIFICATION:
                is_sent = f"{is_sent} OR {IS_CHANGING_URL}"
            probe = first.format(self.probes_hint, f"AND {IS_PROBE} AND kind = '{kind}'")
            probes.append(f"CASE WHEN {is_sent} THEN ({probe}) END")
        return statement("due").substitute(
            self.tables,
            webhook_id=self.public_id("wh", "found.webhook_id"),
            is_active=IS_ACTIVE,
            stopping=STOPPING_STATUSES,
            first=first.format("", ""),
            first_probes=", ".join(probes),
        )

    def lost_claims(self, webhook_ids: Sequence[str], now: datetime) -> dict[str, int]:
        """Return the number of lost claims by webhook, for at most ``MAX_LANES`` webhooks. Zeros are omitted.

        Only the first entries of each webhook are read, regardless of its backlog.
        """
        branch = f"""
            SELECT webhook_id, COUNT(*) FROM (
                SELECT webhook_id, claimed_at, leased_until FROM {self.entries}
                WHERE webhook_id = %s AND due_at IS NOT NULL
                ORDER BY due_at LIMIT {FIRST_ENTRIES}
            ) entries_{{}} WHERE claimed_at IS NOT NULL AND leased_until <= %s GROUP BY webhook_id"""
        sql = " UNION ALL ".join(branch.format(place) for place in range(len(webhook_ids)))
        params = list(chain(*((self.write_id(pk), self.write_time(now)) for pk in webhook_ids)))
        return {self.read_id("wh", pk): number for pk, number in self.fetch(sql, params)} if sql else {}

    def claim(self, asks: Sequence[ClaimRequest], terms: ClaimTerms) -> Claimed:
        """Claim the oldest due deliveries of each webhook, up to its fair share and its limits.

        Webhooks locked by another worker are skipped. A claim increments the attempt number and lasts until
        ``terms.leased_until``. The claims include lost ones of all kinds, and expired deliveries.
        """
        with self.writing():
            locked = self._lock_lanes(asks, terms)
            rows, blocked = self._first_of_groups(self._without_contested(self._pick(locked, terms)), locked)
            self._park(blocked)
            self._claim(rows, terms)
            claims = self._claims(rows, {found.lane.webhook_id: found.lane for found in locked})
            self._write_lanes(locked, claims, asks, terms)
            return Claimed([found.lane for found in locked], claims, len(blocked))

    def events(self, event_ids: Iterable[str]) -> dict[str, ClaimedEvent]:
        """Return each event that still exists, by its id."""
        rows = self._rows_of(_events, list(event_ids))
        return {pk: (type_, body.encode(), traceparent) for pk, type_, body, traceparent in rows}

    def release(
        self, ids: Iterable[str], worker: int, number: int, claimed_at: datetime, due_at: datetime | None = None
    ) -> None:
        """Restore the queue entries of claims, optionally with a new due time. Skip claims that have ended."""
        keys, entries = list(ids), QueueEntry.objects.using(self.using)
        later = {"due_at": due_at} if due_at else {}
        with self.writing():
            entries.claimed().lock(keys)
            entries.filter(pk__in=keys, worker=worker, attempt=number, claimed_at=claimed_at).update(
                attempt=number - 1, claimed_at=None, leased_until=None, worker=None, **later
            )

    def _lock_lanes(self, asks: Sequence[ClaimRequest], terms: ClaimTerms) -> list[LockedLane]:
        """Lock the lanes, except those locked by another worker."""
        lanes = self._rows_of(_free_lanes, sorted(ask.webhook_id for ask in asks))
        locked = {row[0]: QueueLane.from_db(self.using, LANE_COLUMNS, row) for row in lanes}
        keys = self._keys(locked)
        asked = {ask.webhook_id: ask for ask in asks}
        found = []
        for values in self._rows_of(_webhooks, list(locked)):
            row, ask = locked[values[0]], asked[values[0]]
            lane = Lane(**dict(zip(LANE_NAMES, values, strict=True)), worker=terms.worker, claimed_at=terms.now)
            lane.keys = keys.get(lane.webhook_id, ())
            lane.next_slot_at = row.next_slot_at
            in_flight = ask.own + row.claims_of_others(terms.worker, terms.now)
            if ask.lost_only:
                found.append(LockedLane(lane, row, ask.room, (), lost_only=True))
            else:
                room = lane.room(ask, in_flight, terms.now)
                found.append(LockedLane(lane, row, room, lane.kinds(terms.now), ask.due_from))
        return found

    def _keys(self, webhook_ids: Iterable[str]) -> Mapping[str, Sequence[LaneKey]]:
        """Return the signing keys by webhook, current keys first."""
        found: dict[str, list[LaneKey]] = {}
        for webhook_id, *key in self._rows_of(_signing_keys, list(webhook_ids)):
            found.setdefault(webhook_id, []).append(LaneKey(*key))
        return found

    def _pick(self, locked: Sequence[LockedLane], terms: ClaimTerms) -> Sequence[Row]:
        """Return due and lost entries up to the room of each lane, or more for lanes with an order."""
        branches: list[str] = []
        params: list[Any] = []
        for found in locked:
            if found.room <= 0:
                continue
            for only_probes in found.picks:
                sql, values = self._pick_in(found, terms, only_probes=only_probes)
                branches.append(f"SELECT * FROM ({sql}) lane_{len(branches)}")
                params += values
        rows = self.fetch_batch(" UNION ALL ".join(branches), params, columns=11) if branches else []
        has_twice = any(len(found.picks) > 1 for found in locked)
        return list({row[0]: row for row in rows}.values()) if has_twice else rows

    def _pick_in(self, found: LockedLane, terms: ClaimTerms, *, only_probes: bool) -> tuple[str, list[Any]]:
        now = self.write_time(terms.now)
        lost = "OR leased_until <= %s" if terms.lost_again_at else ""
        kinds = [kind.value for kind in found.kinds] or [""]
        marks = ", ".join(["%s"] * len(kinds))
        is_ordered = found.lane.order != Order.NONE
        limits = ("AND due_at >= %s" if found.due_from else "") + (f" AND {IS_PROBE}" if only_probes else "")
        may_park = (
            is_ordered and bool(found.kinds) and not only_probes
        )  # otherwise the search for them would read the whole backlog
        sql = f"""
            SELECT {self.public_id("dlv", "delivery_id")} AS id, {self.public_id("wh", "webhook_id")} AS webhook_id,
                {self.public_id("evt", "event_id")} AS event_id, kind, attempt + 0, max_attempts + 0,
                {self.readable_time("claimed_at")}, {self.readable_time("expires_at")}, retry_policy,
                place IS NOT NULL AS is_ordered, {self._is_blocked if is_ordered else "0"} AS is_blocked
            FROM {self.entries} AS entry {self.probes_hint if only_probes else ""}
            WHERE webhook_id = %s AND due_at <= %s {limits}
                AND ((claimed_at IS NULL AND (kind IN ({marks}) OR expires_at <= %s)) {lost})
            ORDER BY due_at LIMIT {int(found.room) + PARKED_AT_A_TIME * may_park}"""
        since = [self.write_time(found.due_from)] if found.due_from else []
        return sql, [self.write_id(found.lane.webhook_id), now, *since, *kinds, now, *([now] if lost else [])]

    @property
    def _is_blocked(self) -> str:
        """The condition for an entry behind the first of its group.

        The first is found by the order of the index. PostgreSQL would choose a scan of the table for EXISTS.
        """
        return f"""
            CASE WHEN claimed_at IS NULL AND place > (
                SELECT earlier.place FROM {self.entries} AS earlier
                WHERE earlier.webhook_id = entry.webhook_id AND earlier.order_key = entry.order_key
                    AND earlier.place IS NOT NULL
                ORDER BY earlier.place LIMIT 1
            ) THEN 1 ELSE 0 END"""

    def _without_contested(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Leave out lost claims with a late result that is being recorded, instead of waiting for it."""
        lost = [self.read_id("dlv", row[0]) for row in rows if row[CLAIMED_AT] is not None]
        features = self.connection.features
        if not lost or not features.has_select_for_update:
            return rows
        entries = QueueEntry.objects.using(self.using).filter(pk__in=lost).order_by("pk")
        locks = entries.select_for_update(skip_locked=features.has_select_for_update_skip_locked)
        free = set(locks.values_list("pk", flat=True))
        return [row for row in rows if row[CLAIMED_AT] is None or self.read_id("dlv", row[0]) in free]

    def _first_of_groups(self, rows: Sequence[Row], locked: Sequence[LockedLane]) -> tuple[list[Row], list[Row]]:
        """Return the entries to claim, up to the room of their lanes, and those to park."""
        rooms = {each.lane.webhook_id: each.room for each in locked}
        found: list[Row] = []
        for row in rows:
            webhook_id = self.read_id("wh", row[1])
            if not row[IS_BLOCKED] and rooms[webhook_id] > 0:
                rooms[webhook_id] -= 1
                found.append(row)
        return found, [row for row in rows if row[IS_BLOCKED]]

    def _park(self, rows: Sequence[Row]) -> None:
        ids = [self.write_id(row[0]) for row in rows]
        for start in range(0, len(ids), MAX_PARAMS):
            page = ids[start : start + MAX_PARAMS]
            self._execute_for(f"UPDATE {self.entries} SET due_at = NULL", (), page, "delivery_id IN (%s)")

    def _claim(self, rows: Sequence[Row], terms: ClaimTerms) -> None:
        now = self.write_time(terms.now)
        new = [self.write_id(row[0]) for row in rows if row[CLAIMED_AT] is None]
        lost = [self.write_id(row[0]) for row in rows if row[CLAIMED_AT] is not None]
        ordered = [self.write_id(row[0]) for row in rows if row[CLAIMED_AT] is None and row[IS_ORDERED]]
        self._execute_for(
            f"UPDATE {self.entries} SET attempt = {self.next_attempt}, claimed_at = %s, leased_until = %s, worker = %s",
            [now, self.write_time(terms.leased_until), terms.worker],
            new,
            "delivery_id IN (%s) AND claimed_at IS NULL",
        )
        self._execute_for(
            f"UPDATE {self.entries} SET place = place - {BEGUN}", (), ordered, "delivery_id IN (%s) AND place > 0"
        )
        if terms.lost_again_at is not None:
            self._execute_for(
                f"UPDATE {self.entries} SET leased_until = %s, worker = %s",
                [self.write_time(terms.lost_again_at), terms.worker],
                lost,
                "delivery_id IN (%s) AND claimed_at IS NOT NULL",
            )

    @property
    def next_attempt(self) -> str:
        return f"CASE WHEN attempt < {MAX_ATTEMPT_NUMBER} THEN attempt + 1 ELSE {MAX_ATTEMPT_NUMBER} END"

    def _claims(self, rows: Sequence[Row], lanes: Mapping[str, Lane]) -> list[Claim]:
        event_ids = {row[EVENT_ID]: self.read_id("evt", row[EVENT_ID]) for row in rows if row[EVENT_ID]}
        events = dict(NO_EVENT)
        events.update(self.events(event_ids.values()))
        return [self._claim_of(row, lanes, event_ids.get(row[EVENT_ID]), events) for row in rows]

    def _claim_of(
        self,
        row: Row,
        lanes: Mapping[str, Lane],
        event_id: str | None,
        events: Mapping[str | None, ClaimedEvent],
    ) -> Claim:
        delivery_id, webhook_id, _, kind, number, max_attempts, lost_since, expires_at, retry_policy, *_ = row
        webhook_id = self.read_id("wh", webhook_id)
        lane = lanes[webhook_id]
        return Claim(
            self.read_id("dlv", delivery_id),
            webhook_id,
            event_id,
            kind,
            number if lost_since else min(number + 1, MAX_ATTEMPT_NUMBER),
            max_attempts,
            self.read_time(lost_since),
            self.read_time(expires_at),
            retry_policy,
            bool(row[IS_ORDERED]),
            lane.for_handshake() if kind == HANDSHAKE else lane,
            *events.get(event_id, MISSING),
        )

    def _write_lanes(
        self,
        locked: Sequence[LockedLane],
        claims: Sequence[Claim],
        asks: Sequence[ClaimRequest],
        terms: ClaimTerms,
    ) -> None:
        """Store the number of claims for the other workers, and apply it to the rate limits."""
        numbers = Counter(claim.webhook_id for claim in claims if claim.lost_since is None)
        own = {ask.webhook_id: ask.own for ask in asks}
        changed = []
        for lane, row, *_ in locked:
            if not (number := numbers[lane.webhook_id]):
                continue
            held = row.held_by_others(terms.worker, terms.now)
            mine = own[lane.webhook_id] + number, terms.leased_until.timestamp()
            row.in_flight = {**held, str(terms.worker): mine}
            if lane.limit is not None:
                row.next_slot_at = lane.next_slot_at = lane.limit.after(number, terms.now).next_slot_at
            changed.append(row)
        self._save_lanes(changed)


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
