"""The store of the simulation has the contract of the queue: the same calls have the same results on every database."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from webhooks_app.delivery import recording
from webhooks_app.delivery.claim import ClaimRequest, ClaimTerms, Finished
from webhooks_app.delivery.outcome import AttemptLog, NextStep, Result, State
from webhooks_app.delivery.sql import sql_for
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, QueueLane, Tally, Webhook, WorkerSession
from webhooks_app.models.status import stop_reason

from ..support.rows import make_webhook
from . import store as simulated
from .adapter import substituted
from .rows import Database

pytestmark = pytest.mark.django_db(transaction=True)

BEGIN = datetime(2090, 1, 1, tzinfo=UTC)
"""Later than the time of the database, which PostgreSQL compares in a claim too."""

WORKERS = st.integers(1, 3)
ORDERS = ("none", "webhook", "key")
POLICY_SECONDS = 5
ENTRY = ("webhook_id", "kind", "due_at", "expires_at", "attempt", "claimed_at", "leased_until", "worker")
ENTRY += ("order_key", "place", "max_attempts")
FIELDS = tuple(name.removesuffix("_id") for name in ENTRY)


def lane_of(claim):
    lane = claim.lane
    limits = lane.status, lane.rate_limit, lane.order
    return lane.webhook_id, lane.url, lane.is_active, *limits, lane.worker, lane.claimed_at


def facts_of(claim):
    return (*claim[:10], bool(claim.event_type), lane_of(claim))


class SameResults(RuleBasedStateMachine):
    """Random calls to both. After each, all rows are the same."""

    def __init__(self, webhooks):
        super().__init__()
        for model in (QueueEntry, QueueLane, DeliveryAttempt, Delivery, Event, WorkerSession, Tally):
            model.objects.all()._raw_delete("default")
        self.now = BEGIN
        self.number = 0
        self.statements = sql_for("default")
        self.store = simulated.Store()
        self.models = Database(self.store, lambda: self.now)
        self.claims = []
        self.held_lane = None
        owner, url = webhooks[0].owner, webhooks[0].url
        self.event = Event.objects.create(type="ppt.generation.failed", owner=owner, body="{}", created_at=BEGIN)
        self.store.bodies[self.event.pk] = b"{}"
        for webhook, order in zip(webhooks, ORDERS, strict=True):
            row = simulated.Webhook(webhook.pk, str(owner.pk), url, order=order)
            self.store.webhooks[webhook.pk] = row
            saved = {"paused_at": None, "deleted_at": None, "max_in_flight": None, "rate_limit": None}
            Webhook.objects.filter(pk=webhook.pk).update(url=url, status="active", pending_url="", **saved)
        self.ids = sorted(self.store.webhooks)

    def teardown(self):
        if self.held_lane:
            self.let_the_lane_go()

    # What both do

    def _webhook(self, place):
        return self.store.webhooks[self.ids[place % len(self.ids)]]

    def _change(self, row, **values):
        Webhook.objects.filter(pk=row.pk).update(**values)
        for name, value in values.items():
            setattr(row, name, value)

    def _compare(self):
        found = {pk: tuple(values) for pk, *values in QueueEntry.objects.values_list("pk", *ENTRY)}
        expected = {pk: tuple(getattr(row, name) for name in FIELDS) for pk, row in self.store.entries.items()}
        assert found == expected
        states = ("state", "state_reason", "attempt_count", "last_result")
        found = {pk: tuple(values) for pk, *values in Delivery.objects.values_list("pk", *states)}
        rows = self.store.deliveries.items()
        assert found == {pk: tuple(getattr(row, name) for name in states) for pk, row in rows}
        attempts = set(DeliveryAttempt.objects.values_list("delivery", "number", "result"))
        assert attempts == {(pk, *result) for pk, row in rows for result in row.results.items()}
        self._compare_lanes()
        sessions = set(WorkerSession.objects.values_list("number", "seen_at"))
        assert sessions == {(row.number, row.seen_at) for row in self.store.sessions.values()}
        self._make_due_times_unique()

    def _compare_lanes(self):
        lanes = {lane.pk: lane for lane in QueueLane.objects.all()}
        assert lanes.keys() == self.store.lanes.keys()
        for pk, row in self.store.lanes.items():
            assert lanes[pk].claims == row.in_flight
            assert lanes[pk].is_fast is row.is_fast
            assert (lanes[pk].next_slot_at is None) is (row.next_slot_at is None)
            if row.next_slot_at is not None:  # rounded to microseconds by each
                assert abs(lanes[pk].next_slot_at - row.next_slot_at) < timedelta(microseconds=3)
                row.next_slot_at = lanes[pk].next_slot_at

    def _make_due_times_unique(self):
        """Decide about the order of entries with the same due time, which no database promises."""
        times = Counter(row.due_at for row in self.store.entries.values() if row.due_at)
        for pk, row in sorted(self.store.entries.items()):
            if times[row.due_at] > 1:
                times[row.due_at] -= 1
                self.number += 1
                row.due_at += timedelta(microseconds=self.number)
                QueueEntry.objects.filter(pk=pk).update(due_at=row.due_at)

    # Deliveries, webhooks and time

    @rule(
        place=st.integers(0, 2),
        kind=st.sampled_from(("event", "event", "event", "test", "retry_notice", "verification")),
        key=st.sampled_from(("a", "b")),
        late=st.booleans(),
        seconds=st.integers(-9, 9),
        expires=st.none() | st.integers(-1, 9),
    )
    def emit(self, place, kind, key, late, seconds, expires):
        webhook, self.number = self._webhook(place), self.number + 1
        pk, event = f"dlv_{self.number:032x}", None if kind == "verification" else self.event.pk
        group = {"webhook": "", "key": key}.get(webhook.order) if kind == "event" else None
        number = None if group is None else 1000 * self.number if not late else self.number
        due_at = self.now + timedelta(seconds=seconds, microseconds=self.number)
        values = {"kind": kind, "max_attempts": 2, "expires_at": None}
        if expires is not None:
            values["expires_at"] = self.now + timedelta(seconds=expires)
        Delivery.objects.bulk_create([Delivery(id=pk, webhook_id=webhook.pk, event_id=event, **values)])
        entry = {"order_key": group, "place": number, "due_at": due_at, "retry_policy": "", **values}
        QueueEntry.objects.bulk_create([QueueEntry(delivery_id=pk, webhook_id=webhook.pk, event_id=event, **entry)])
        with self.store.writing():
            self.store.add(
                simulated.DeliveryRow(pk, webhook.pk, event, kind),
                simulated.Entry(pk, webhook.pk, event, **entry),
            )
        self._compare()

    @rule(place=st.integers(0, 2), status=st.sampled_from(("active", "active", "pending", "disabled", "failed")))
    def change_status(self, place, status):
        self._change(self._webhook(place), status=status)

    @rule(place=st.integers(0, 2), is_paused=st.booleans())
    def pause(self, place, is_paused):
        self._change(self._webhook(place), paused_at=self.now if is_paused else None)

    @rule(place=st.integers(0, 2), limit=st.none() | st.integers(1, 4), rate=st.sampled_from((None, 0.5, 4)))
    def change_limits(self, place, limit, rate):
        self._change(self._webhook(place), max_in_flight=limit, rate_limit=rate)

    @rule(place=st.integers(0, 2), is_deleted=st.booleans())
    def delete(self, place, is_deleted):
        self._change(self._webhook(place), deleted_at=self.now if is_deleted else None)

    @rule(place=st.integers(0, 2), url=st.sampled_from(("", "https://example.com/new")))
    def change_url(self, place, url):
        self._change(self._webhook(place), pending_url=url)

    @rule(seconds=st.integers(1, 60))
    def time_passes(self, seconds):
        self.now += timedelta(seconds=seconds)

    # Workers

    @rule()
    def look(self):
        found = self.statements.due_webhooks(self.now, after=None)
        expected = self.store.due_webhooks(self.now, after=None)
        assert [(row[0], row[1], *row[3:]) for row in found] == [(row[0], row[1], *row[3:]) for row in expected]
        lost = self.statements.lost_claims(self.ids, self.now)
        assert lost == self.store.lost_claims(self.ids, self.now)
        missing = [row.webhook_id for row in found if not row.has_lane]
        QueueLane.objects.ensure(missing)
        self.store.ensure_lanes(missing)
        self._compare()

    @rule(
        worker=WORKERS,
        places=st.sets(st.integers(0, 2), min_size=1),
        room=st.integers(1, 4),
        is_unknown=st.booleans(),
        lost=st.sampled_from(("no", "too", "only")),
    )
    def claim(self, worker, places, room, is_unknown, lost):
        ids = [self.ids[place] for place in sorted(places) if self.ids[place] in self.store.lanes]
        own = Counter(claim.webhook_id for claim, _ in self.claims if claim.lane.worker == worker)
        # During a change of its URL, PostgreSQL may claim fewer than there is room for.
        rooms = {pk: 1 if self.store.webhooks[pk].is_changing_url else room for pk in ids}
        asks = [ClaimRequest(pk, own[pk], 3, rooms[pk], is_unknown=is_unknown, lost_only=lost == "only") for pk in ids]
        again = None if lost == "no" else self.now + timedelta(seconds=5)
        terms = ClaimTerms(worker, self.now, self.now + timedelta(seconds=45), again)
        self.now += timedelta(milliseconds=1)
        found, expected = self.statements.claim(asks, terms), self.store.claim(asks, terms)
        claims = {claim.key: claim for claim in found.claims}
        same = {claim.key: claim for claim in expected.claims}
        assert {key: facts_of(claim) for key, claim in claims.items()} == {
            key: facts_of(claim) for key, claim in same.items()
        }
        assert sorted(lane.webhook_id for lane in found.lanes) == sorted(lane.webhook_id for lane in expected.lanes)
        assert found.parked == expected.parked
        self.claims += [(claims[key], same[key]) for key in sorted(claims)]
        self._compare()

    def _take(self, number, worker=None):
        """Take some of the claims out of those in flight."""
        chosen = [pair for pair in self.claims if worker is None or pair[0].lane.worker == worker][:number]
        self.claims = [pair for pair in self.claims if pair not in chosen]
        return chosen

    @precondition(lambda self: self.claims and not self.held_lane)
    @rule(number=st.integers(1, 4), delay=st.none() | st.integers(1, 9))
    def release(self, number, delay):
        due_at = None if delay is None else self.now + timedelta(seconds=delay)
        for claim, _ in self._take(number):
            for side in (self.statements, self.store):
                side.release([claim.delivery_id], claim.lane.worker, claim.number, claim.lane.claimed_at, due_at)
        self._compare()

    @precondition(lambda self: self.claims and not self.held_lane)
    @rule(number=st.integers(1, 4), result=st.sampled_from((Result.SUCCEEDED, Result.TIMEOUT)), repeats=st.booleans())
    def record(self, number, result, repeats):
        chosen = self._take(number)
        if repeats:  # a result that arrives twice, or late
            self.claims += chosen
        found = recording.record(self.statements, [self._finished(claim, result) for claim, _ in chosen], self.now)
        with substituted(self.models):
            same = recording.record(self.store, [self._finished(claim, result) for _, claim in chosen], self.now)
        assert sorted(item.claim.key for item in found) == sorted(item.claim.key for item in same)
        self._follow_webhooks()
        self._compare()

    def _finished(self, claim, result):
        attempt = AttemptLog(*claim.key, result.value, "", self.now, claim.lane.url)
        if result is Result.SUCCEEDED:
            step = NextStep(state=State.SUCCEEDED)
        elif claim.number >= claim.max_attempts:
            step = NextStep(state=State.GIVEN_UP)
        else:
            due_at = self.now + timedelta(seconds=POLICY_SECONDS)
            step = NextStep(state=State.PENDING, next_attempt_at=due_at)
        return Finished(claim, attempt, step, self.now)

    def _follow_webhooks(self):
        """Compare what handshakes have changed."""
        fields = "status", "url", "pending_url"
        for pk, *values in Webhook.objects.values_list("pk", *fields):
            assert values == [getattr(self.store.webhooks[pk], name) for name in fields]
        self._take_over_due_times()

    def _take_over_due_times(self):
        """Use the virtual time for deliveries that the database made due by its own clock, and their cancellation."""
        for pk, row in self.store.entries.items():
            if row.due_at == self.now:
                QueueEntry.objects.filter(pk=pk, due_at__lt=BEGIN - timedelta(days=365)).update(due_at=self.now)

    @precondition(lambda self: not self.held_lane)
    @rule(worker=WORKERS, place=st.integers(0, 2), number=st.integers(0, 3), is_fast=st.none() | st.booleans())
    def publish(self, worker, place, number, is_fast):
        for side in (self.statements, self.store):
            side.publish(worker, {self.ids[place]: (number, is_fast)}, self.now + timedelta(seconds=45))
        self._compare()

    @precondition(lambda self: not self.held_lane)
    @rule(worker=WORKERS, is_current=st.booleans())
    def worker_dies(self, worker, is_current):
        WorkerSession.objects.update_or_create(number=worker, defaults={"seen_at": self.now})
        self.store.beat(simulated.Session(worker, self.now))
        seen_at = self.now if is_current else self.now - timedelta(seconds=1)
        found = self.statements.end_claims(worker, seen_at, self.now)
        assert found == self.store.end_claims(worker, seen_at, self.now)
        self._compare()

    @precondition(lambda self: not self.held_lane)
    @rule(place=st.integers(0, 2), limit=st.integers(1, 5))
    def cancel_stopped(self, place, limit):
        row = self._webhook(place)
        webhook = Webhook.objects.get(pk=row.pk)
        if stop_reason("event", webhook):
            with self.statements.writing(), self.store.writing():
                found = Delivery.objects.cancel_stopped(webhook, limit=limit)
                assert found == self.store.cancel_stopped(row, limit, self.now)
            self._take_over_due_times()
            self._compare()

    @precondition(lambda self: not self.held_lane)
    @rule(place=st.integers(0, 2), number=st.integers(1, 3))
    def cancel(self, place, number):
        ids = sorted(self.store.of_webhook.get(self.ids[place], {}))[:number]
        if not ids:
            return
        with self.statements.writing():
            Delivery.objects.filter(pk__in=ids).cancel("expired", among=QueueEntry.objects.filter(pk__in=ids))
        self.store.cancel(ids, "expired", self.now)
        self._take_over_due_times()
        self._compare()

    # Another transaction

    @precondition(lambda self: not self.held_lane and connection.features.has_select_for_update_skip_locked)
    @rule(place=st.integers(0, 2))
    def another_transaction_locks_a_lane(self, place):
        pk = self.ids[place]
        if pk not in self.store.lanes:
            return
        other = connection.copy()
        other.ensure_connection()
        other.set_autocommit(False)
        field = QueueLane._meta.pk.target_field
        with other.cursor() as cursor:
            table = connection.ops.quote_name(QueueLane._meta.db_table)
            value = field.get_db_prep_value(pk, connection)
            cursor.execute(f"SELECT 1 FROM {table} WHERE webhook_id = %s FOR UPDATE", [value])
        self.held_lane = other
        self.store._locked["lane", pk] = simulated.Transaction("elsewhere")

    @precondition(lambda self: self.held_lane)
    @rule()
    def let_the_lane_go(self):
        self.held_lane.rollback()
        self.held_lane.close()
        self.held_lane = None
        self.store._locked.clear()


def compare(webhooks, *, histories, calls):
    options = settings(
        max_examples=histories,
        stateful_step_count=calls,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: SameResults(webhooks), settings=options)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_store_does_what_the_database_does(webhooks):
    compare(webhooks, histories=60, calls=40)


def test_the_store_does_what_the_database_does_in_few_calls(webhooks):
    compare(webhooks, histories=8, calls=25)


@pytest.fixture
def webhooks(alice, settings):
    settings.WEBHOOKS_RETRY_NOTICES = False
    return [make_webhook(alice, order=order) for order in ORDERS]
