"""The life of a delivery in any possible order: the database and a model of it must agree after every step.

Hypothesis chooses the steps. Two workers claim, send, record, release, are suspended and die. Meanwhile events are
emitted and rolled back, webhooks are disabled, deleted, changed and verified, and deliveries are cancelled and
redelivered.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from webhooks_app.delivery.recording import record
from webhooks_app.delivery.sending import finish, finish_lost, request_for
from webhooks_app.delivery.sql import sql_for
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, QueueLane, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import delete, disable, enable, start_verification
from webhooks_app.operations.registration import update_webhook
from webhooks_app.operations.sending import redeliver, send_test_event
from webhooks_app.retry import SpecificationPolicy
from webhooks_app.testing import ManualClock, Webhooks
from webhooks_app.transport import Exchange, Response

from ..support.queues import LookingQueue
from ..support.rows import EVENT_TYPE, URL, emit_one, make_webhook
from ..support.slots import open_slots

CAP = 2
LEASE = timedelta(seconds=45)
SCHEDULE = SpecificationPolicy()
UNVERIFIED_KINDS = ("verification", "test")


def _facts(row: Delivery) -> tuple[str, int, datetime | None, bool]:
    """Return the state, the number of attempts, the due time or end of the lease, and whether it is claimed."""
    if row.entry is None:
        return row.state, row.attempt_count, None, False
    return row.state, row.entry.attempt, row.leased_until or row.entry.due_at, row.claimed_at is not None


class RealWorker:
    """The actions of one worker's engine on the real queue, and its knowledge in this test."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._queue = LookingQueue(using="default", clock=clock, lease=LEASE, slots=open_slots(cap=CAP))

    def claim(self, limit: int) -> Sequence[Any]:
        return self._queue.claim(limit)

    def release(self, claims: Sequence[Any]) -> None:
        self._queue.release(claims)
        self._queue.publish()

    def request(self, claim: Any) -> Any:
        return request_for(claim, now=self._clock(), timeout_seconds=30)

    def answered(self, request: Any, response: Response, seconds: float) -> Any:
        return finish(Exchange(request=request, duration_seconds=seconds, response=response))

    def lost(self, claim: Any) -> Any:
        return finish_lost(claim, self._clock())

    def record(self, finished: Sequence[Any]) -> None:
        record(sql_for("default"), finished, self._clock())

    def forget(self, finished: Sequence[Any]) -> None:
        """Record the commit of these results."""
        self._queue.forget([item.claim for item in finished])
        self._queue.publish()

    def counts(self, webhook_id: str) -> int:
        """Return the number of a webhook's deliveries in flight, as known to this worker."""
        lane = QueueLane.objects.filter(pk=webhook_id).first()
        others = lane.claims_of_others(self._queue.worker, self._clock()) if lane else 0
        return self._queue.slots.held_by(webhook_id) + others


@dataclass(eq=False)
class Registration:
    """A webhook in the model."""

    row: Webhook
    status: str
    url: str = URL
    pending_url: str = ""
    is_deleted: bool = False

    @property
    def is_stopped(self) -> bool:
        return self.is_deleted or self.status in ("disabled", "failed")

    def may_be_sent(self, kind: str) -> bool:
        if self.is_deleted or self.status == "disabled":
            return False
        return self.status == "active" or kind in UNVERIFIED_KINDS


@dataclass(eq=False)
class Series:
    """A delivery in the model, with its requests at the receiver."""

    id: str
    webhook: Registration
    kind: str
    event_id: str | None
    max_attempts: int
    due_at: datetime | None
    """The due time or, for a claimed delivery, the end of its lease."""
    expires_at: datetime | None
    state: str = "pending"
    made: int = 0
    is_claimed: bool = False
    is_lost: bool = False
    worker: int = 0
    """The number of the last claiming worker."""
    was_due_at: datetime | None = None
    """The due time before the claim."""
    results: dict[int, bool] = field(default_factory=dict)
    """The success of each recorded attempt by its number."""
    hits: list[int] = field(default_factory=list)
    """The number of the attempt of each request."""
    hits_after_success: int = 0
    was_answered_200: bool = False
    losses: int = 0
    """The number of expired leases and killed workers while this delivery was claimed."""

    @property
    def recorded(self) -> int:
        """The number of the last recorded attempt."""
        return max(self.results, default=0)

    @property
    def is_waiting(self) -> bool:
        return self.state == "pending" and not self.is_claimed

    def end(self, state: str) -> None:
        self.state, self.due_at, self.is_claimed = state, None, False

    def is_over(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def is_due(self, now: datetime) -> bool:
        return self.state == "pending" and self.due_at is not None and self.due_at <= now

    def could_be_claimed(self, now: datetime) -> bool:
        if not self.is_due(now):
            return False
        return self.is_claimed or (not self.is_over(now) and self.webhook.may_be_sent(self.kind))

    @property
    def is_searched_for_later(self) -> bool:
        """Return True for a claim that is searched for once a second, if it is lost."""
        return self.is_claimed and (self.webhook.status != "active" or self.webhook.is_deleted)


@dataclass(eq=False)
class Ticket:
    """A claim of a worker: to be sent, in flight, or to be recorded."""

    series: Series
    number: int
    claim: Any
    is_lost: bool
    url: str
    notices: bool
    ended_at: datetime | None = None
    started_at: datetime | None = None
    request: Any = None
    finished: Any = None
    is_success: bool = False

    @property
    def is_good(self) -> bool:
        series = self.series
        is_newest = series.made == self.number and series.worker == self.claim.lane.worker
        return series.state == "pending" and series.is_claimed and is_newest


@dataclass(eq=False)
class Worker:
    real: RealWorker
    tickets: list[Ticket] = field(default_factory=list)

    @property
    def unsent(self) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.request is None and ticket.finished is None]

    @property
    def in_flight(self) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.request is not None and ticket.finished is None]

    @property
    def finished(self) -> list[Ticket]:
        return [ticket for ticket in self.tickets if ticket.finished is not None]


class RolledBackError(Exception):
    """The transaction of a test does not commit."""


TWO = st.integers(0, 1)
ANY = st.integers(0, 30)
SUCCESS = st.booleans()
STEPS = {
    "emit": [],
    "emit_and_roll_back": [st.booleans()],
    "test_event": [TWO],
    "claim": [TWO, st.sampled_from([1, 3, 100])],
    "send": [TWO],
    "answer": [TWO, ANY, SUCCESS],
    "answer_all": [TWO, SUCCESS],
    "record": [TWO, st.sampled_from(["heard", "unheard", "rolled back"])],
    "work": [TWO, SUCCESS],
    "suspend": [TWO, st.booleans()],
    "release": [TWO],
    "kill": [TWO],
    "advance": [st.sampled_from([0.3, 1, 5, 30, 46])],
    "cancel": [ANY],
    "redeliver": [ANY],
    "change": [TWO, st.sampled_from(["disable", "delete", "enable", "verify", "move", "withdraw"]), st.booleans()],
}
"""The possible steps, with their parameters."""

OFTEN = ["claim", "send", "answer_all", "record", "work", "work", "advance", "advance", "change", "suspend"]
STEP = st.sampled_from([*STEPS, *OFTEN]).flatmap(lambda name: st.tuples(st.just(name), *STEPS[name]))


class DeliveryLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(datetime.now(UTC) + timedelta(minutes=1))
        self.workers = [Worker(real=RealWorker(self.clock)) for _ in range(2)]
        self.webhooks: list[Registration] = []
        self.deleted: list[Registration] = []
        self.series: dict[str, Series] = {}

    @initialize()
    def register(self) -> None:
        self.owner = get_user_model().objects.create_user("alice")
        self.webhooks += [self._registered(), self._registered(retry_notices=False)]

    def _registered(self, **fields: Any) -> Registration:
        return Registration(row=make_webhook(self.owner, **fields), status="active")

    def teardown(self) -> None:
        is_failing = sys.exc_info()[0] is not None
        try:
            if not is_failing:
                self._nothing_is_stuck_when_all_is_well_again()
        finally:
            for model in (DeliveryAttempt, Delivery, Event, Webhook, get_user_model()):
                model.objects.all().delete()

    @rule(step=STEP)
    def happen(self, step: tuple[Any, ...]) -> None:
        """Take any step. With a single rule, Hypothesis never omits a kind of step for a whole run."""
        name, *choices = step
        getattr(self, name)(*choices)

    # Emission

    def emit(self) -> None:
        event = emit_one(self.owner)

        listening = [webhook for webhook in self.webhooks if webhook.status == "active"]
        self._adopt([(webhook, "event") for webhook in listening])
        assert Event.objects.filter(pk=event.pk).exists()

    def emit_and_roll_back(self, savepoint: bool) -> None:
        if savepoint:
            with transaction.atomic(), suppress(RolledBackError), transaction.atomic():
                emit_one(self.owner, "never happened")
                raise RolledBackError
        else:
            with suppress(RolledBackError), transaction.atomic():
                emit_one(self.owner, "never happened")
                raise RolledBackError

        self._adopt([])
        assert not Event.objects.filter(body__contains="never happened").exists()

    def test_event(self, index: int) -> None:
        webhook = self.webhooks[index]
        if webhook.status == "disabled":
            return
        webhook.row.refresh_from_db()
        send_test_event(webhook.row, EVENT_TYPE)

        self._adopt([(webhook, "test")])

    # Workers

    def claim(self, index: int, limit: int) -> None:
        worker, now = self.workers[index], self.clock()
        claims = worker.real.claim(limit)

        assert len(claims) <= limit
        assert len({claim.delivery_id for claim in claims}) == len(claims)
        droppable = [series for series in self.series.values() if self._may_be_dropped(series)]
        for claim in claims:
            worker.tickets.append(self._ticket(claim, now))
        self._see_cancelled(droppable)
        for webhook in [*self.webhooks, *self.deleted]:
            assert len(self._in_flight(webhook, now)) <= CAP
        if not claims:
            left = [series for series in self.series.values() if series.could_be_claimed(now)]
            left = [series for series in left if not series.is_searched_for_later]
            assert not [series for series in left if worker.real.counts(series.webhook.row.pk) < CAP], "stuck"

    def send(self, index: int) -> None:
        worker = self.workers[index]
        for ticket in worker.unsent:
            ticket.request = worker.real.request(ticket.claim)
            ticket.started_at = self.clock()
            ticket.series.hits.append(ticket.number)
            ticket.series.hits_after_success += ticket.series.was_answered_200

    def answer(self, index: int, which: int, is_success: bool) -> None:
        in_flight = self.workers[index].in_flight
        if in_flight:
            self._answer(self.workers[index], in_flight[which % len(in_flight)], is_success)

    def answer_all(self, index: int, is_success: bool) -> None:
        for ticket in self.workers[index].in_flight:
            self._answer(self.workers[index], ticket, is_success)

    def record(self, index: int, ending: str) -> None:
        """Record finished attempts. A worker without an acknowledged commit records the same again later."""
        worker, finished = self.workers[index], self.workers[index].finished
        if not finished:
            return
        if ending == "rolled back":
            with suppress(RolledBackError), transaction.atomic():
                worker.real.record([ticket.finished for ticket in finished])
                raise RolledBackError
            return
        self._record(worker, finished)
        if ending == "heard":
            worker.real.forget([ticket.finished for ticket in finished])
            worker.tickets = [ticket for ticket in worker.tickets if ticket not in finished]

    def work(self, index: int, is_success: bool) -> None:
        """Do the complete work of a worker in one step, the usual case."""
        self.claim(index, 100)
        self.send(index)
        self.answer_all(index, is_success)
        self.record(index, "heard")

    def suspend(self, index: int, is_sent: bool) -> None:
        """Suspend a worker with claims until the other has recorded them as lost and claimed them again."""
        self.claim(index, 3)
        if is_sent:
            self.send(index)
            self.answer_all(index, is_success=True)
        self.clock.advance(LEASE.total_seconds() + 1)
        self.work(1 - index, is_success=False)
        self.clock.advance(1)
        self.claim(1 - index, 3)
        self.record(index, "heard")
        if not is_sent:
            self.release(index)

    def release(self, index: int) -> None:
        """Release unsent claims. Those claimed again meanwhile are not affected."""
        worker = self.workers[index]
        unsent = worker.unsent
        worker.real.release([ticket.claim for ticket in unsent])
        for ticket in unsent:
            if ticket.is_good:
                ticket.series.made -= 1
                ticket.series.is_claimed, ticket.series.due_at = False, ticket.series.was_due_at
            worker.tickets.remove(ticket)

    def kill(self, index: int) -> None:
        for ticket in self.workers[index].tickets:
            ticket.series.losses += 1
        self.workers[index] = Worker(real=RealWorker(self.clock))

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # Users

    def cancel(self, which: int) -> None:
        pending = [series for series in self.series.values() if series.state == "pending"]
        if pending:
            series = pending[which % len(pending)]
            Delivery.objects.filter(pk=series.id).pending().cancel("by hand")
            series.end("cancelled")

    def redeliver(self, which: int) -> None:
        if not self.series:
            return
        series = list(self.series.values())[which % len(self.series)]
        may_be_queued = series.webhook.may_be_sent(series.kind) or series.webhook.status == "pending"
        is_refused = series.event_id is None or series.state == "pending" or series.webhook.is_deleted
        if is_refused or not may_be_queued:
            return
        redeliver(Delivery.objects.get(pk=series.id), actor=PROJECT)
        self._adopt([(series.webhook, series.kind)])

    def change(self, index: int, do: str, is_busy: bool) -> None:
        """Change a webhook if its state permits it, possibly with pending deliveries."""
        if is_busy:
            self.emit()
        webhook = self.webhooks[index]
        is_disabled = webhook.status == "disabled"
        is_verified = webhook.status == "active" and not webhook.pending_url
        if do == "verify" and is_verified:
            return
        if do in ("delete", "move", "withdraw") or (do == "enable") == is_disabled:
            webhook.row.refresh_from_db()
            getattr(self, f"_{do}")(webhook)

    def _disable(self, webhook: Registration) -> None:
        disable(webhook.row, actor=PROJECT)
        webhook.status, webhook.pending_url = "disabled", ""
        self._cancel_waiting(webhook)

    def _delete(self, webhook: Registration) -> None:
        """Delete a webhook, and register another in its place."""
        delete(webhook.row, actor=PROJECT)
        webhook.is_deleted, webhook.pending_url = True, ""
        self._cancel_waiting(webhook)
        self.deleted.append(webhook)
        self.webhooks[self.webhooks.index(webhook)] = self._registered()

    def _enable(self, webhook: Registration) -> None:
        enable(webhook.row, actor=PROJECT)
        self._expect_handshake(webhook)

    def _verify(self, webhook: Registration) -> None:
        start_verification(webhook.row, actor=PROJECT)
        self._expect_handshake(webhook)

    def _move(self, webhook: Registration) -> None:
        url = f"{webhook.pending_url or webhook.url}x"
        update_webhook(webhook.row, url=url, actor=PROJECT)
        if webhook.status == "active":
            webhook.pending_url = url
        else:
            webhook.url = url
        if webhook.status != "disabled":
            self._expect_handshake(webhook)

    def _withdraw(self, webhook: Registration) -> None:
        update_webhook(webhook.row, url=webhook.url, actor=PROJECT)
        if webhook.pending_url:
            webhook.pending_url = ""
            self._cancel_handshakes(webhook)

    # Invariants

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        rows = {row.pk: _facts(row) for row in Delivery.objects.select_related("queue_entry")}
        assert rows == {
            s.id: (s.state, s.made if s.state == "pending" else s.recorded, s.due_at, s.is_claimed)
            for s in self.series.values()
        }

    @invariant()
    def what_is_queued_is_what_is_pending(self) -> None:
        queued = set(QueueEntry.objects.values_list("pk", flat=True))
        assert queued == set(Delivery.objects.pending().values_list("pk", flat=True))

    @invariant()
    def the_log_is_what_was_recorded(self) -> None:
        logged = {
            (delivery_id, number, result == "succeeded")
            for delivery_id, number, result in DeliveryAttempt.objects.values_list("delivery_id", "number", "result")
        }
        recorded = {(s.id, number, good) for s in self.series.values() for number, good in s.results.items()}
        assert logged == recorded

    @invariant()
    def every_webhook_has_the_status_and_the_urls_that_the_model_says(self) -> None:
        found = {pk: facts for pk, *facts in Webhook.objects.values_list("pk", "status", "url", "pending_url")}
        known = [*self.webhooks, *self.deleted]
        assert found == {each.row.pk: [each.status, each.url, each.pending_url] for each in known}

    @invariant()
    def no_series_has_more_requests_than_attempts_are_allowed(self) -> None:
        for series in self.series.values():
            assert len(series.hits) <= series.max_attempts
            assert len(series.hits) == len(set(series.hits)), "one attempt, two requests"

    @invariant()
    def nothing_succeeded_that_no_receiver_confirmed(self) -> None:
        for series in self.series.values():
            assert (series.state == "succeeded") <= (series.was_answered_200 and any(series.results.values()))

    @invariant()
    def nothing_is_sent_again_after_a_200_unless_a_worker_was_lost(self) -> None:
        for series in self.series.values():
            assert series.losses or not series.hits_after_success

    # Updates of the model

    def _adopt(self, expected: Sequence[tuple[Registration, str]]) -> list[Series]:
        """Add new rows to the model. They must belong to exactly these webhooks and kinds."""
        new = [self._new_series(row) for row in Delivery.objects.exclude(pk__in=self.series).select_related("webhook")]
        new.sort(key=lambda series: (series.webhook.row.pk, series.kind, series.event_id or ""))
        assert Counter((series.webhook, series.kind) for series in new) == Counter(expected)
        self.series |= {series.id: series for series in new}
        return new

    def _new_series(self, row: Delivery) -> Series:
        (webhook,) = [w for w in [*self.webhooks, *self.deleted] if w.row.pk == row.webhook_id]
        return Series(
            id=row.pk,
            webhook=webhook,
            kind=row.kind,
            event_id=row.event_id,
            max_attempts=row.max_attempts,
            due_at=row.due_at,
            expires_at=row.expires_at,
        )

    def _ticket(self, claim: Any, now: datetime) -> Ticket:
        series = self.series[claim.delivery_id]
        assert series.could_be_claimed(now), "claimed a delivery that is not due, not pending or not sendable"
        ticket = Ticket(
            series=series,
            number=claim.number,
            claim=claim,
            is_lost=claim.is_lost,
            url=claim.lane.url,
            notices=claim.lane.retry_notices and series.webhook.status == "active",
        )
        if series.is_claimed:
            assert (claim.is_lost, claim.number) == (True, series.made)
            series.losses += 1
            series.due_at = QueueEntry.objects.values_list("leased_until", flat=True).get(pk=series.id)
            assert series.due_at is not None
            assert now < series.due_at <= now + LEASE
            ticket.finished, ticket.ended_at = self.workers[0].real.lost(claim), now
            series.is_lost = True
        else:
            webhook = series.webhook
            is_of_new_url = series.kind == "verification" and webhook.pending_url
            assert claim.lane.url == (webhook.pending_url if is_of_new_url else webhook.url)
            series.is_lost = False
            series.made += 1
            assert (claim.is_lost, claim.number) == (False, series.made)
            series.was_due_at = series.due_at
            series.is_claimed, series.due_at = True, now + LEASE
        series.worker = claim.lane.worker
        return ticket

    def _answer(self, worker: Worker, ticket: Ticket, is_success: bool) -> None:
        assert ticket.started_at is not None
        challenge = json.loads(ticket.request.body).get("data", {}).get("challenge", "")
        response = Response(status=200 if is_success else 503, body=json.dumps({"challenge": challenge}).encode())
        ticket.is_success, ticket.ended_at = is_success, self.clock()
        ticket.finished = worker.real.answered(
            ticket.request, response, (self.clock() - ticket.started_at).total_seconds()
        )
        ticket.series.was_answered_200 |= is_success

    def _record(self, worker: Worker, finished: Sequence[Ticket]) -> None:
        worker.real.record([ticket.finished for ticket in finished])
        good = []
        for ticket in finished:
            if ticket.is_good:
                good.append(ticket)
                self._follow(ticket)
        announced = [
            t for t in good if t.notices and t.series.state == "pending" and t.series.kind in ("event", "test")
        ]
        notices = self._adopt([(ticket.series.webhook, "retry_notice") for ticket in announced])
        self._check_notices(announced, notices)
        for ticket in good:
            if ticket.series.kind == "verification" and ticket.series.state != "pending":
                self._conclude_handshake(ticket)

    def _follow(self, ticket: Ticket) -> None:
        series = ticket.series
        series.results[ticket.number] = ticket.is_success
        if ticket.is_success:
            series.end("succeeded")
        elif ticket.number >= series.max_attempts:
            series.end("given_up")
        else:
            assert ticket.ended_at is not None
            series.is_claimed = False
            series.due_at = ticket.ended_at + SCHEDULE.delays[ticket.number - 1]

    def _check_notices(self, announced: Sequence[Ticket], notices: Sequence[Series]) -> None:
        bodies = Event.objects.in_bulk([notice.event_id for notice in notices])
        said = Counter()
        for notice in notices:
            data = bodies[notice.event_id].data
            said[data["original_event_id"], data["retry_count"], notice.expires_at] += 1
            assert notice.max_attempts == 1
        assert said == Counter((t.series.event_id, t.number, t.series.due_at) for t in announced)

    def _conclude_handshake(self, ticket: Ticket) -> None:
        webhook = ticket.series.webhook
        if webhook.pending_url and webhook.pending_url == ticket.url:
            webhook.url = webhook.pending_url if ticket.is_success else webhook.url
            webhook.pending_url = ""
            return
        if webhook.is_deleted or webhook.status != "pending" or webhook.url != ticket.url:
            return
        webhook.status = "active" if ticket.is_success else "failed"
        if not ticket.is_success:
            self._cancel_waiting(webhook, except_kind="test")

    def _expect_handshake(self, webhook: Registration) -> None:
        if not webhook.pending_url:
            webhook.status = "pending"
        self._cancel_handshakes(webhook)
        self._adopt([(webhook, "verification")])

    def _cancel_handshakes(self, webhook: Registration) -> None:
        for series in self.series.values():
            if series.webhook is webhook and series.kind == "verification" and series.state == "pending":
                series.end("cancelled")

    def _cancel_waiting(self, webhook: Registration, *, except_kind: str = "") -> None:
        for series in self.series.values():
            if series.webhook is webhook and series.is_waiting and series.kind != except_kind:
                series.end("cancelled")

    def _may_be_dropped(self, series: Series) -> bool:
        """Return True if a claim may cancel a delivery instead of returning it."""
        if series.is_due(self.clock()) and series.is_over(self.clock()) and not series.is_claimed:
            return True
        kept_test = series.kind == "test" and series.webhook.status == "failed" and not series.webhook.is_deleted
        return series.is_waiting and series.webhook.is_stopped and not kept_test

    def _see_cancelled(self, candidates: Sequence[Series]) -> None:
        cancelled = Delivery.objects.filter(pk__in=[series.id for series in candidates], state="cancelled")
        for pk, count in cancelled.values_list("pk", "attempt_count"):
            self.series[pk].end("cancelled")
            self.series[pk].made = count  # The claim of an expired delivery does not count.

    def _in_flight(self, webhook: Registration, now: datetime) -> list[Series]:
        held = [series for series in self.series.values() if series.webhook is webhook and series.is_claimed]
        # Lost claims are excluded, because they have no requests in flight.
        return [series for series in held if not series.is_lost and series.due_at is not None and series.due_at > now]

    def _nothing_is_stuck_when_all_is_well_again(self) -> None:
        """Lose every worker. A new one and a working receiver must complete everything."""
        for index in range(len(self.workers)):
            self.kill(index)
        self.clock.advance(LEASE.total_seconds() + 1)
        for _ in range(100):
            self.work(0, is_success=True)
            self.the_rows_are_what_the_model_says()
            if not any(s.state == "pending" and s.webhook.may_be_sent(s.kind) for s in self.series.values()):
                return
            self.clock.advance(5)
        pytest.fail("stuck")


@pytest.mark.timeout(600)  # Seconds if it passes. A failure is first reduced to a minimal example.
@pytest.mark.django_db(transaction=True)
def test_the_guarantees_hold_for_any_order_of_events():
    lives = 25 if connection.vendor == "postgresql" else 10
    with Webhooks():  # Prevents wake-ups of this machine's workers.
        run_state_machine_as_test(
            DeliveryLife,
            settings=settings(
                max_examples=lives, stateful_step_count=40, derandomize=True, database=None, deadline=None
            ),
        )
