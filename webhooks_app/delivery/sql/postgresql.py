"""The queue's statements for PostgreSQL. A whole batch is one array or COPY, with all values as text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

from ...database.dialects import dialect_of
from ...database.sql import prepared
from ...models import QueueEntry, Webhook
from ...models.hold import KINDS_BY_STATUS
from ...models.limits import BURST, LONG_AGO, MAX_RATE, MIN_RATE
from ...models.webhook import Order
from ..claim import FIRST_ENTRIES, HANDSHAKE, WEBHOOK_FIELDS, Claim, Claimed, ClaimRequest, ClaimTerms, Finished, Lane
from ..outcome import AttemptLog, Headers
from ..signing import LaneKey
from .portable import IS_CHANGING_URL, IS_PROBE, MISSING, NO_EVENT, PortableSql
from .results import json_of, json_of_timings, message_of, statement

CLAIM_TYPES = {
    "asks": "jsonb",
    "worker": "text",
    "now": "timestamptz",
    "epoch": "float8",
    "leased_until": "timestamptz",
    "lease_epoch": "float8",
    "lost_again_at": "timestamptz",
}
SAVE_TYPES = {
    "ids": "uuid[]",
    "numbers": "smallint[]",
    "workers": "bigint[]",
    "states": "text[]",
    "results": "text[]",
    "masked": "boolean[]",
    "next_attempts": "timestamptz[]",
    "now": "timestamptz",
}
ACTIVE = Webhook.Status.ACTIVE.value

FIRST_TIME, LAST_TIME = "timestamptz '0001-01-02 00:00Z'", "timestamptz '9999-12-30 00:00Z'"
"""The times that drivers can read. PostgreSQL also has infinity and years of more digits."""

MAX_REMEMBERED = 10_000
"""Webhooks with an order, deleted ones included, after which a process forgets them."""

PUBLISH_TYPES = {"worker": "text", "until": "float8", "claims": "jsonb"}
"""The PostgreSQL types of the parameters of each statement."""


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NULL = "\\N"


class PostgresqlSql(PortableSql):
    def __init__(self, using: str) -> None:
        super().__init__(using)
        self._ordered: frozenset[str] = frozenset()
        """The webhooks with an order at the last claim. Threads replace it; each claim reads it once."""

    def claim(self, asks: Sequence[ClaimRequest], terms: ClaimTerms) -> Claimed:
        """Claim in one statement, or in a transaction for webhooks with an order, after locking their lanes.

        The snapshot of a single statement may be older than its locks, but the first delivery of a group must be read
        after locking.
        """
        known = self._ordered
        plain = [ask for ask in asks if ask.webhook_id not in known]
        claimed = self._claim_at_once(plain, terms) if plain else Claimed([], [])
        found = frozenset(lane.webhook_id for lane in claimed.lanes if lane.order != Order.NONE)
        ordered = [ask for ask in asks if ask.webhook_id in known or ask.webhook_id in found]
        self._ordered = found if len(known) > MAX_REMEMBERED else known | found
        if not ordered:
            return claimed
        more = super().claim(ordered, terms)
        self._ordered -= {lane.webhook_id for lane in more.lanes if lane.order == Order.NONE}
        lanes = [lane for lane in claimed.lanes if lane.webhook_id not in found]
        return Claimed([*lanes, *more.lanes], [*claimed.claims, *more.claims], more.parked)

    def _claim_at_once(self, asks: Sequence[ClaimRequest], terms: ClaimTerms) -> Claimed:
        """Claim by ``claim.sql``, which explains the steps."""
        values = {
            "asks": json.dumps([(ask.webhook_id[-32:], *ask[1:6]) for ask in asks]),
            "worker": str(terms.worker),
            "now": terms.now,
            "epoch": terms.now.timestamp(),
            "leased_until": terms.leased_until,
            "lease_epoch": terms.leased_until.timestamp(),
            "lost_again_at": terms.lost_again_at,
        }
        rows = self.fetch_prepared(self._claiming, CLAIM_TYPES, values)
        events = dict(NO_EVENT)
        events.update((row[1], (row[4], row[9].encode(), row[3])) for row in rows if row[0] == "event")
        found = [_lane(json.loads(row[9]), terms, row[7]) for row in rows if row[0] == "lane"]
        lanes = {lane.webhook_id: lane for lane in found}
        claims = [
            Claim(  # type: ignore[call-arg] # the row has the other fields, in their order
                *row[1:],
                lanes[row[2]].for_handshake() if row[4] == HANDSHAKE else lanes[row[2]],
                *events.get(row[3], MISSING),
            )
            for row in rows
            if row[0] == "claim"
        ]
        return Claimed(found, claims)

    @cached_property
    def _claiming(self) -> str:
        is_lost = "(%(lost_again_at)s::timestamptz IS NOT NULL AND leased_until <= %(now)s)"
        return statement("claim").substitute(
            self.tables,
            webhook_fields=", ".join(f"webhook.{self.quote(name)}" for name in WEBHOOK_FIELDS if name != "rate_limit"),
            kinds_by_status=" ".join(
                f"WHEN '{status}' THEN '{_array(kinds)}'" for status, kinds in KINDS_BY_STATUS.items()
            ),
            min_rate=MIN_RATE,
            max_rate=MAX_RATE,
            burst=BURST.total_seconds(),
            active=ACTIVE,
            unordered=Order.NONE.value,
            is_probe=IS_PROBE,
            is_changing_url=IS_CHANGING_URL.replace("webhook.", "lane."),
            of_new_url=_array([HANDSHAKE]),
            is_lost=is_lost,
            is_due="webhook_id = lane.id AND due_at <= GREATEST(%(now)s, statement_timestamp()) AND "
            f"(claimed_at IS NULL AND (kind = ANY (lane.kinds) OR expires_at <= %(now)s) OR {is_lost})",
            next_attempt=self.next_attempt,
            claimed_at=self.readable_time("claimed_at"),
            expires_at=self.readable_time("expires_at"),
            public_delivery_id=self.public_id("dlv", "delivery_id"),
            public_webhook_id=self.public_id("wh", "webhook_id"),
            public_event_id=self.public_id("evt", "event_id"),
            public_id=self.public_id("evt", "id"),
        )

    def lost_claims(self, webhook_ids: Sequence[str], now: datetime) -> dict[str, int]:
        sql = f"""
            SELECT {self.public_id("wh", "asked.id")}, count(*)
            FROM unnest(%(ids)s::uuid[]) AS asked (id) CROSS JOIN LATERAL (
                SELECT claimed_at, leased_until FROM {self.entries} WHERE webhook_id = asked.id
                ORDER BY due_at LIMIT {FIRST_ENTRIES}
            ) AS entry
            WHERE entry.claimed_at IS NOT NULL AND entry.leased_until <= %(now)s GROUP BY asked.id"""
        values = {"ids": _array([self.write_id(pk) for pk in webhook_ids]), "now": now}
        return dict(self.fetch_prepared(sql, {"ids": "uuid[]", "now": "timestamptz"}, values))

    def publish(self, worker: int, numbers: Mapping[str, tuple[int, bool | None]], leased_until: datetime) -> None:
        values: dict[str, Any] = {
            "worker": str(worker),
            "until": leased_until.timestamp(),
            "claims": json.dumps([(pk[-32:], number, is_fast) for pk, (number, is_fast) in numbers.items()]),
        }
        self.fetch_prepared(self._publishing, PUBLISH_TYPES, values)

    @cached_property
    def _publishing(self) -> str:
        return statement("publish").substitute(self.tables)

    def save(self, finished: Sequence[Finished], now: datetime) -> set[tuple[str, int]]:
        claims = [item.claim for item in finished]
        values = {
            "ids": _array([claim.delivery_id[-32:] for claim in claims]),
            "numbers": _array([str(claim.number) for claim in claims]),
            "workers": _array([str(claim.lane.worker) for claim in claims]),
            "states": _array([item.step.state for item in finished]),
            "results": _array([item.attempt.result for item in finished]),
            "masked": _array(["t" if item.attempt.is_masked else "f" for item in finished]),
            "next_attempts": _array([_time(item.step.next_attempt_at) for item in finished]),
            "now": now,
        }
        if len({item.step.next_attempt_at is None for item in finished}) > 1:  # the statement deletes before it updates
            QueueEntry.objects.using(self.using).claimed().lock(claim.delivery_id for claim in claims)
        saved = {(delivery_id, number) for delivery_id, number in self.fetch_prepared(self._saving, SAVE_TYPES, values)}
        logs = [item.attempt for item in finished]
        self._save_attempts([log for log in logs if (log.delivery_id, log.number) in saved])
        return saved

    @cached_property
    def _saving(self) -> str:
        public_id = self.public_id("dlv", "delivery.id")
        return statement("save").substitute(self.tables, is_pending=self.pending, public_delivery_id=public_id)

    def fetch_prepared(self, sql: str, types: Mapping[str, str], values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return prepared(sql, tuple(types.items())).fetch(self.connection, values)

    def readable_time(self, column: str) -> str:
        return f"""CASE WHEN {column} BETWEEN {FIRST_TIME} AND {LAST_TIME} THEN {column}
            WHEN {column} IS NOT NULL THEN timestamptz 'epoch' END"""

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
            if dialect_of(self.using).uses_psycopg3(self.using):
                with cursor.copy(sql) as copy:
                    copy.write(lines)
            else:
                cursor.copy_expert(sql, io.StringIO(lines))


_OWNER_KEY: Any = Webhook._meta.get_field("owner")
"""The field for converting an owner's key from JSON. The key may be a UUID."""


def _lane(values: dict[str, Any], terms: ClaimTerms, next_slot_at: datetime | None) -> Lane:
    """Return the lane for a row in PostgreSQL's JSON."""
    webhook = {name: values[name] for name in WEBHOOK_FIELDS}
    for name in ("deleted_at", "paused_at"):
        webhook[name] = _read_moment(webhook[name])
    keys = [LaneKey(scheme, token, *map(_read_moment, times)) for scheme, token, *times in values["keys"] or ()]
    if webhook["owner_id"] is not None:
        webhook["owner_id"] = _OWNER_KEY.to_python(webhook["owner_id"])
    webhook_id = f"wh_{webhook.pop('id').replace('-', '')}"
    return Lane(webhook_id, **webhook, keys=keys, next_slot_at=next_slot_at, worker=terms.worker, claimed_at=terms.now)


def _read_moment(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return LONG_AGO


def _copy_line(log: AttemptLog) -> str:
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


def _array(values: Iterable[str]) -> str:
    """Return a PostgreSQL array as text. The values must not need quoting: digits, words, NULL."""
    return "{" + ",".join(values) + "}"


def _time(moment: datetime | None) -> str:
    return f'"{moment.astimezone(UTC).isoformat()}"' if moment else "NULL"
