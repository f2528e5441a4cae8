"""The database of the simulation: rows, locks and transactions, with the contract of the queue's statements.

``test_store.py`` makes the same random calls here and on PostgreSQL, MariaDB and SQLite, with the same results. A
transaction waits only before its first write, so nobody sees writes before their commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db import OperationalError
from greenlet import getcurrent

from webhooks_app.delivery.claim import (
    FIRST_ENTRIES,
    HANDSHAKE,
    MAX_LANES,
    Claim,
    Claimed,
    ClaimRequest,
    ClaimTerms,
    DueWebhook,
    Finished,
    Lane,
)
from webhooks_app.delivery.sql.portable import MAX_ATTEMPT_NUMBER, PARKED_AT_A_TIME, PROBED
from webhooks_app.models.order import BEGUN
from webhooks_app.models.status import PROBES, stop_reason

BY_DUE = attrgetter("due_at", "pk")

Key = tuple[str, str]


@dataclass(slots=True, eq=False)
class Webhook:
    pk: str
    owner_id: str
    url: str
    status: str = "active"
    pending_url: str = ""
    paused_at: datetime | None = None
    deleted_at: datetime | None = None
    max_in_flight: int | None = None
    rate_limit: float | None = None
    order: str = "none"
    accepted_statuses: str = "200"
    retry_policy: str = ""

    @property
    def awaited_url(self) -> str:
        if self.is_changing_url:
            return self.pending_url
        return self.url if self.status == "pending" else ""

    @property
    def is_changing_url(self) -> bool:
        return self.pending_url != "" and self.status == "active"


@dataclass(slots=True, eq=False)
class LaneRow:
    pk: str
    in_flight: dict[str, tuple[int, float]] = field(default_factory=dict)
    next_slot_at: datetime | None = None
    is_fast: bool | None = None


@dataclass(slots=True, eq=False)
class Entry:
    pk: str
    webhook: str
    event: str | None
    kind: str
    due_at: datetime | None
    max_attempts: int
    expires_at: datetime | None = None
    retry_policy: str = ""
    attempt: int = 0
    claimed_at: datetime | None = None
    leased_until: datetime | None = None
    worker: int | None = None
    order_key: str | None = None
    place: int | None = None


@dataclass(slots=True, eq=False)
class DeliveryRow:
    pk: str
    webhook: str
    event: str | None
    kind: str
    state: str = "pending"
    state_reason: str = ""
    attempt_count: int = 0
    last_result: str = ""
    results: dict[int, str] = field(default_factory=dict)
    """The result of each attempt that was recorded, by its number."""


@dataclass(slots=True, eq=False)
class Session:
    """The heartbeat of a worker."""

    number: int
    seen_at: datetime
    session_pid: int | None = None
    session_started_at: datetime | None = None


class Transaction:
    def __init__(self, what: str) -> None:
        self.what = what
        self.locks: set[Key] = set()
        self.undo: list[Callable[[], object]] = []
        """How to undo its changes, apart from ``before``."""
        self.before: list[tuple[Any, str, object]] = []
        """The rows that it changes, each with a field and its value before."""
        self.commits_after: float | None = None
        """After how many seconds the server commits it, although the connection has failed."""
        self.touched: dict[str, None] = {}
        """The deliveries that it changes."""
        self.on_commit: list[Callable[[], object]] = []
        self.waits_for: Transaction | None = None

    def is_behind(self, other: Transaction) -> bool:
        """Return True if this transaction waits for the other one, at least indirectly."""
        return self.waits_for is not None and (self.waits_for is other or self.waits_for.is_behind(other))


class DeadlockError(OperationalError):
    """Two transactions wait for each other."""


class Surroundings:
    """What happens around the statements: nothing, unless the simulation replaces it."""

    def before(self, what: str) -> None:
        """Called before a statement, which fails if this raises an error. Others may run meanwhile."""

    def before_commit(self, what: str) -> None:
        """Called before a commit, which fails if this raises an error. Nobody else may run."""

    def after(self, what: str) -> None:
        """Called after a statement or a commit. The caller does not learn of its success if this raises an error."""

    def wait_for_locks(self) -> None:
        raise AssertionError("In one thread, nobody releases a lock.")

    def released(self) -> None:
        """Called when a transaction has released its locks."""

    def committed(self, transaction: Transaction) -> None:
        """Called at a commit."""

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        raise AssertionError("In one thread, nothing happens later.")


class Store:
    using = "default"

    def __init__(self, around: Surroundings | None = None, *, has_single_writer: bool = False) -> None:
        self.around = around or Surroundings()
        self.has_single_writer = has_single_writer
        self.webhooks: dict[str, Webhook] = {}
        self.lanes: dict[str, LaneRow] = {}
        self.entries: dict[str, Entry] = {}
        self.of_webhook: dict[str, dict[str, Entry]] = {}
        """The entries of each webhook that has any."""
        self.deliveries: dict[str, DeliveryRow] = {}
        self.bodies: dict[str, bytes] = {}
        self.sessions: dict[int, Session] = {}
        self.places = 0
        self.signer: Any = None
        self._open: dict[Any, Transaction] = {}
        self._locked: dict[Key, Transaction] = {}

    # Transactions

    @contextmanager
    def writing(self, what: str = "transaction") -> Iterator[Transaction]:
        me = getcurrent()
        if outer := self._open.get(me):
            yield outer
            return
        self.around.before(what)
        transaction = self._open[me] = Transaction(what)
        try:
            if self.has_single_writer:
                self.lock("database", ("",))
            yield transaction
            self.around.before_commit(transaction.what)
        except BaseException:
            if transaction.commits_after is not None and self._commit_later(transaction):
                del self._open[me]
                raise
            self.abort(transaction)
            self._close(me, transaction)
            raise
        self.around.committed(transaction)
        self._close(me, transaction)
        for call in transaction.on_commit:
            call()
        self.around.after(transaction.what)

    def abort(self, transaction: Transaction) -> None:
        """Undo the changes of a transaction, and release its locks."""
        for undo in reversed(transaction.undo):
            undo()
        for row, name, value in reversed(transaction.before):
            setattr(row, name, value)
        transaction.undo.clear()
        transaction.before.clear()
        for key in transaction.locks:
            del self._locked[key]
        transaction.locks.clear()
        self.around.released()

    def _commit_later(self, transaction: Transaction) -> bool:
        """Keep the locks of a transaction, and commit it later. Return False if that is impossible."""
        rows = {("entry" if isinstance(row, Entry) else "lane", row.pk) for row, _, _ in transaction.before}
        if transaction.undo or any(self._locked.get(key, transaction) is not transaction for key in rows):
            return False
        for key in rows:
            self._locked[key] = transaction
        transaction.locks |= rows
        after = [(row, name, getattr(row, name)) for row, name, _ in transaction.before]
        for row, name, value in reversed(transaction.before):
            setattr(row, name, value)

        def commit() -> None:
            for row, name, value in after:
                setattr(row, name, value)
            self.around.committed(transaction)
            self._release(transaction)

        self.around.later(transaction.commits_after or 0.0, commit)
        return True

    def open_transaction(self) -> Transaction:
        """Return the transaction of the current thread."""
        return self._open[getcurrent()]

    def _close(self, me: Any, transaction: Transaction) -> None:
        del self._open[me]
        self._release(transaction)

    def _release(self, transaction: Transaction) -> None:
        for key in transaction.locks:
            del self._locked[key]
        if transaction.locks:
            self.around.released()

    def lock(self, kind: str, ids: Iterable[str]) -> None:
        """Lock rows in their order, each as soon as it is free, in a transaction."""
        transaction = self._open[getcurrent()]
        for pk in sorted(ids):
            key = kind, pk
            while (holder := self._locked.get(key)) is not None and holder is not transaction:
                if holder.is_behind(transaction):
                    raise DeadlockError("deadlock detected")
                transaction.waits_for = holder
                self.around.wait_for_locks()
                transaction.waits_for = None
            self._locked[key] = transaction
            transaction.locks.add(key)

    def lock_free(self, kind: str, ids: Iterable[str]) -> list[str]:
        """Lock the rows that no other transaction holds, and return them."""
        transaction = self._open[getcurrent()]
        found = []
        for pk in sorted(ids):
            holder = self._locked.setdefault((kind, pk), transaction)
            if holder is transaction:
                transaction.locks.add((kind, pk))
                found.append(pk)
        return found

    def change(self, row: Any, **values: Any) -> None:
        transaction = self._open[getcurrent()]
        for name, value in values.items():
            transaction.before.append((row, name, getattr(row, name)))
            setattr(row, name, value)
        transaction.touched[row.pk] = None

    def _insert(self, rows: dict[Any, Any], key: Any, row: Any) -> None:
        transaction = self._open[getcurrent()]
        rows[key] = row
        transaction.undo.append(lambda: rows.pop(key))
        transaction.touched[key] = None

    def _remove(self, entry: Entry) -> None:
        transaction = self._open[getcurrent()]
        del self.entries[entry.pk]
        siblings = self.of_webhook[entry.webhook]
        del siblings[entry.pk]
        transaction.touched[entry.pk] = None

        def undo() -> None:
            self.entries[entry.pk] = siblings[entry.pk] = entry

        transaction.undo.append(undo)

    def add(self, delivery: DeliveryRow, entry: Entry) -> None:
        """Insert a delivery with its entry."""
        self._insert(self.deliveries, delivery.pk, delivery)
        self._insert(self.entries, entry.pk, entry)
        self._insert(self.of_webhook.setdefault(entry.webhook, {}), entry.pk, entry)

    # Looks

    def due_webhooks(self, now: datetime, *, after: str | None) -> list[DueWebhook]:
        self.around.before("look")
        found = []
        for pk in sorted(pk for pk, entries in self.of_webhook.items() if entries and pk > (after or "")):
            webhook, lane = self.webhooks[pk], self.lanes.get(pk)
            is_active = webhook.status == "active" and webhook.deleted_at is None and webhook.paused_at is None
            found.append(
                DueWebhook(
                    pk,
                    self._first_due(webhook, now, is_active=is_active),
                    webhook.owner_id,
                    lane is not None,
                    lane.is_fast if lane else None,
                    is_active,
                    bool(stop_reason("event", webhook)),
                )
            )
            if len(found) == MAX_LANES:
                break
        self.around.after("look")
        return found

    def _first_due(self, webhook: Webhook, now: datetime, *, is_active: bool) -> datetime | None:
        kinds = set(PROBES) if is_active else {kind for kind in PROBES if self._is_probed(webhook, kind)}
        return min(
            (
                entry.due_at
                for entry in self.of_webhook[webhook.pk].values()
                if entry.due_at is not None
                and (entry.claimed_at is None or (entry.leased_until is not None and entry.leased_until <= now))
                and (is_active or entry.kind in kinds)
            ),
            default=None,
        )

    def _is_probed(self, webhook: Webhook, kind: str) -> bool:
        if webhook.deleted_at is not None:
            return False
        if kind == HANDSHAKE and webhook.is_changing_url:
            return True
        return webhook.paused_at is None and webhook.status in PROBED[kind]

    def lost_claims(self, webhook_ids: Sequence[str], now: datetime) -> dict[str, int]:
        self.around.before("search for lost claims")
        found = {}
        for pk in webhook_ids:
            entries = [entry for entry in self.of_webhook.get(pk, {}).values() if entry.due_at is not None]
            first = sorted(entries, key=BY_DUE)[:FIRST_ENTRIES]
            if number := sum(entry.claimed_at is not None and entry.leased_until <= now for entry in first):
                found[pk] = number
        self.around.after("search for lost claims")
        return found

    def next_due_at(self, without: Iterable[str]) -> datetime | None:
        """Return the due time of the first entry without a claim that its webhook permits and no other blocks."""
        without = set(without)
        self.around.before("look")
        return min(
            (
                entry.due_at
                for pk, entries in self.of_webhook.items()
                for entry in entries.values()
                if entry.due_at is not None
                and entry.claimed_at is None
                and pk not in without
                and (entry.kind in self._lane(self.webhooks[pk], 0, entry.due_at).kinds(entry.due_at))
                and not self._is_blocked(entry)
            ),
            default=None,
        )

    # Claims

    def claim(self, asks: Sequence[ClaimRequest], terms: ClaimTerms) -> Claimed:
        lanes, claims, parked = [], [], 0
        with self.writing("claim") as transaction:
            asked = {ask.webhook_id: ask for ask in asks}
            free = self.lock_free("lane", [pk for pk in asked if pk in self.lanes])
            self.around.before("statement of claim")
            contested: set[str] = set()
            for pk in free:
                if pk not in self.webhooks:
                    continue
                lane, of_lane, of_parked = self._claim_in(asked[pk], terms, contested)
                lanes.append(lane)
                claims += of_lane
                parked += of_parked
            if any(claim.lost_since is not None for claim in claims):
                transaction.what = "claim of lost ones"
        return Claimed(lanes, claims, parked)

    def _lane(self, webhook: Webhook, worker: int, now: datetime) -> Lane:
        row = self.lanes.get(webhook.pk)
        lane = Lane(
            webhook.pk,
            webhook.owner_id,
            webhook.url,
            (),
            (),
            True,
            webhook.accepted_statuses,
            webhook.status,
            webhook.deleted_at,
            webhook.paused_at,
            webhook.max_in_flight,
            webhook.rate_limit,
            webhook.order,
            webhook.pending_url,
            (),
            row.next_slot_at if row else None,
            worker,
            now,
        )
        lane._signer = self.signer
        return lane

    def _claim_in(self, ask: ClaimRequest, terms: ClaimTerms, contested: set[str]) -> tuple[Lane, list[Claim], int]:
        now, webhook, row = terms.now, self.webhooks[ask.webhook_id], self.lanes[ask.webhook_id]
        lane = self._lane(webhook, terms.worker, now)
        moment = now.timestamp()
        held = {name: v for name, v in row.in_flight.items() if name != str(terms.worker) and v[1] > moment}
        if ask.lost_only:
            room, kinds = ask.room, frozenset[str]()
        else:
            room = lane.room(ask, ask.own + sum(number for number, _ in held.values()), now)
            kinds = frozenset(kind.value for kind in lane.kinds(now))
        picked, blocked = self._pick(ask, terms, lane, room, kinds) if room > 0 else ([], [])
        for entry in blocked:
            self.change(entry, due_at=None)
        claims = [self._claim_of(entry, terms, lane) for entry in picked]
        if number := sum(claim.lost_since is None for claim in claims):
            slot = row.next_slot_at
            if lane.limit is not None:
                slot = lane.next_slot_at = lane.limit.after(number, now).next_slot_at
            mine = ask.own + number, terms.leased_until.timestamp()
            self.change(row, in_flight={**held, str(terms.worker): mine}, next_slot_at=slot)
        return lane, claims, len(blocked)

    def _pick(
        self, ask: ClaimRequest, terms: ClaimTerms, lane: Lane, room: int, kinds: frozenset[str]
    ) -> tuple[list[Entry], list[Entry]]:
        now, is_ordered = terms.now, lane.order != "none"
        if ask.lost_only or (lane.is_active and not lane.is_changing_url):
            picks: Sequence[bool] = (False,)
        else:
            picks = (True, False) if lane.is_active else (True,)
        due = [
            entry
            for entry in self.of_webhook.get(lane.webhook_id, {}).values()
            if entry.due_at is not None
            and entry.due_at <= now
            # Unordered deliveries are read without the bound on PostgreSQL. It is only a hint.
            and (
                (
                    entry.claimed_at is None
                    and (entry.kind in kinds or (entry.expires_at is not None and entry.expires_at <= now))
                )
                or (terms.lost_again_at is not None and entry.claimed_at is not None and entry.leased_until <= now)
            )
        ]
        if ask.due_from is not None and is_ordered:
            due = [entry for entry in due if entry.due_at >= ask.due_from]
        due.sort(key=BY_DUE)
        found: dict[str, Entry] = {}
        for only_probes in picks:
            may_park = is_ordered and bool(kinds) and not only_probes
            rows = [entry for entry in due if entry.kind in PROBES] if only_probes else due
            for entry in rows[: room + PARKED_AT_A_TIME * may_park]:
                found[entry.pk] = entry
        lost = [pk for pk, entry in found.items() if entry.claimed_at is not None]
        free = set(self.lock_free("entry", lost)) if lost else set()
        rows = [entry for pk, entry in found.items() if entry.claimed_at is None or pk in free]
        blocked = [entry for entry in rows if is_ordered and self._is_blocked(entry)]
        ready = [entry for entry in rows if entry not in blocked] if blocked else rows
        return ready[:room], blocked

    def _is_blocked(self, entry: Entry) -> bool:
        if entry.place is None or entry.claimed_at is not None or self.webhooks[entry.webhook].order == "none":
            return False
        return any(
            other.order_key == entry.order_key and other.place is not None and other.place < entry.place
            for other in self.of_webhook[entry.webhook].values()
        )

    def _claim_of(self, entry: Entry, terms: ClaimTerms, lane: Lane) -> Claim:
        lost_since = entry.claimed_at
        if lost_since is None:
            place = entry.place - BEGUN if entry.place is not None and entry.place > 0 else entry.place
            self.change(
                entry,
                attempt=min(entry.attempt + 1, MAX_ATTEMPT_NUMBER),
                claimed_at=terms.now,
                leased_until=terms.leased_until,
                worker=terms.worker,
                place=place,
            )
        else:
            self.change(entry, leased_until=terms.lost_again_at, worker=terms.worker)
        if entry.event is None:
            event = "webhook.verification", b""
        else:
            event = ("event", self.bodies[entry.event]) if entry.event in self.bodies else ("", b"")
        return Claim(
            entry.pk,
            entry.webhook,
            entry.event,
            entry.kind,
            entry.attempt,
            entry.max_attempts,
            lost_since,
            entry.expires_at,
            entry.retry_policy,
            entry.place is not None,
            lane.for_handshake() if entry.kind == HANDSHAKE else lane,
            *event,
        )

    def release(
        self, ids: Iterable[str], worker: int, number: int, claimed_at: datetime, due_at: datetime | None = None
    ) -> None:
        keys = list(ids)
        with self.writing("release"):
            self.lock("entry", [pk for pk in keys if pk in self.entries])
            for pk in keys:
                entry = self.entries.get(pk)
                if entry and (entry.worker, entry.attempt, entry.claimed_at) == (worker, number, claimed_at):
                    later = {"due_at": due_at} if due_at else {}
                    self.change(entry, attempt=number - 1, claimed_at=None, leased_until=None, worker=None, **later)

    def claims_of(self, worker: int, claimed_at: datetime) -> list[tuple[str, int, str]]:
        """Return the deliveries that a worker claimed at this time, with their attempt numbers and webhooks."""
        self.around.before("search for unacknowledged claims")
        rows = self.entries.values()
        return [
            (row.pk, row.attempt, row.webhook) for row in rows if row.worker == worker and row.claimed_at == claimed_at
        ]

    def publish(self, worker: int, numbers: Mapping[str, tuple[int, bool | None]], leased_until: datetime) -> None:
        with self.writing("publication"):
            known = [pk for pk in numbers if pk in self.lanes]
            self.lock("lane", known)
            for pk in known:
                number, is_fast = numbers[pk]
                row = self.lanes[pk]
                held = {name: value for name, value in row.in_flight.items() if name != str(worker)}
                if number:
                    held[str(worker)] = number, leased_until.timestamp()
                self.change(row, in_flight=held, is_fast=row.is_fast if is_fast is None else is_fast)

    # Ends of claims

    def save(self, finished: Sequence[Finished], now: datetime) -> set[tuple[str, int]]:
        self.lock("entry", [item.claim.delivery_id for item in finished if item.claim.delivery_id in self.entries])
        self.around.before("statement of recording")
        saved = set()
        for item in finished:
            claim, step = item.claim, item.step
            entry = self.entries.get(claim.delivery_id)
            if entry is None or entry.claimed_at is None:
                continue
            if (entry.attempt, entry.worker) != (claim.number, claim.lane.worker):
                continue
            saved.add(claim.key)
            if step.state == "pending":
                self.change(entry, claimed_at=None, leased_until=None, worker=None, due_at=step.next_attempt_at)
            else:
                self._remove(entry)
            delivery = self.deliveries[claim.delivery_id]
            results = {**delivery.results, claim.number: str(item.attempt.result)}
            if delivery.state == "pending":
                self.change(
                    delivery,
                    state=str(step.state),
                    last_result=str(item.attempt.result),
                    attempt_count=claim.number,
                    results=results,
                )
        return saved

    def save_tally(self, counts: str, now: datetime) -> None:
        """Keep no counts."""

    def end_claims(self, worker: int, seen_at: datetime, now: datetime) -> int | None:
        with self.writing("end of a dead worker's claims"):
            session = self.sessions.get(worker)
            if session is None or session.seen_at != seen_at:
                return None
            self.end_session(worker)
            held = [pk for pk, row in self.lanes.items() if str(worker) in row.in_flight]
            self.lock("lane", held)
            entries = [row for row in self.entries.values() if row.worker == worker and row.leased_until > now]
            self.lock("entry", [row.pk for row in entries])
            entries = [row for row in entries if row.worker == worker and row.leased_until > now]
            for pk in held:
                row = self.lanes[pk]
                self.change(row, in_flight={name: v for name, v in row.in_flight.items() if name != str(worker)})
            for entry in entries:
                self.change(entry, leased_until=now)
            return len(entries)

    def following(self, ids: Iterable[str]) -> set[str]:
        """Return the next entries in the groups of these, except these themselves."""
        chosen = {pk: self.entries[pk] for pk in ids if pk in self.entries and self.entries[pk].place is not None}
        found = set()
        for entry in chosen.values():
            later = [
                other
                for other in self.of_webhook[entry.webhook].values()
                if other.order_key == entry.order_key and other.place is not None and other.place > entry.place
            ]
            if later:
                found.add(min(later, key=attrgetter("place")).pk)
        return found - chosen.keys()

    def promote(self, ids: Iterable[str], due_at: datetime) -> int:
        """Make parked entries among these due. Return their number."""
        number = 0
        for pk in sorted(ids):
            entry = self.entries.get(pk)
            if entry and entry.due_at is None:
                self.change(entry, due_at=due_at)
                number += 1
        return number

    def cancel(self, ids: Iterable[str], reason: str, now: datetime) -> int:
        """Cancel pending deliveries, and make the next ones of their groups due. Return the number of them."""
        with self.writing("cancellation"):
            entries = [self.entries[pk] for pk in ids if pk in self.entries]
            self.ensure_lanes({entry.webhook for entry in entries})
            self.lock("lane", {entry.webhook for entry in entries})
            self.lock("entry", [entry.pk for entry in entries])
            chosen = [entry.pk for entry in entries if entry.pk in self.entries]
            following = self.following(chosen)
            for pk in chosen:
                self._remove(self.entries[pk])
                self.change(self.deliveries[pk], state="cancelled", state_reason=reason)
            self.promote(following, now)
            return len(chosen)

    def cancel_stopped(self, webhook: Webhook, limit: int, now: datetime) -> int:
        """Cancel the first deliveries without a claim that the state of a locked webhook stops."""
        reason, keeps_tests = stop_reason("event", webhook), not stop_reason("test", webhook)
        self.ensure_lanes([webhook.pk])
        self.lock("lane", [webhook.pk])
        entries = [
            entry
            for entry in self.of_webhook.get(webhook.pk, {}).values()
            if entry.claimed_at is None and not (keeps_tests and entry.kind == "test")
        ]
        # Parked entries, without a due time, are the first or the last of the index.
        entries.sort(key=lambda entry: (entry.due_at is not None, entry.due_at or 0, entry.pk))
        return self.cancel([entry.pk for entry in entries[:limit]], reason, now)

    # Other rows

    def ensure_lanes(self, webhook_ids: Iterable[str]) -> None:
        with self.writing("insertion of lanes"):
            for pk in webhook_ids:
                if pk not in self.lanes:
                    self._insert(self.lanes, pk, LaneRow(pk))

    def beat(self, session: Session) -> None:
        with self.writing("heartbeat"):
            old = self.sessions.get(session.number)
            self.sessions[session.number] = session
            undo = self._open[getcurrent()].undo
            undo.append(
                lambda: self.sessions.update({session.number: old}) if old else self.sessions.pop(session.number)
            )

    def end_session(self, number: int) -> None:
        with self.writing("end of a session"):
            old = self.sessions.pop(number, None)
            if old:
                self._open[getcurrent()].undo.append(lambda: self.sessions.update({number: old}))

    def sort_again(self, webhook: Webhook, keys: Mapping[str, str | None], now: datetime) -> None:
        """Move the entries of a webhook to the groups of its order, in the caller's transaction.

        ``keys`` are the ordering keys of events.
        """
        self.lock("lane", [webhook.pk])
        entries = list(self.of_webhook.get(webhook.pk, {}).values())
        self.lock("entry", [entry.pk for entry in entries if entry.claimed_at is not None])
        for entry in list(self.of_webhook.get(webhook.pk, {}).values()):
            if entry.due_at is None:
                self.change(entry, due_at=now)
            if entry.place is None:
                continue
            key = {"key": keys.get(entry.event or ""), "webhook": ""}.get(webhook.order)
            if webhook.order in ("key", "webhook") and key is not None:
                self.change(entry, order_key=key)
            else:
                self.change(entry, order_key=None, place=None)

    def open_claims(self) -> Counter[str]:
        """Return the number of entries with a claim by webhook."""
        return Counter(entry.webhook for entry in self.entries.values() if entry.claimed_at is not None)
