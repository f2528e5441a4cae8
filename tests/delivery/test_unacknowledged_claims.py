"""Claims whose commit succeeds, but whose acknowledgement does not arrive because the connection fails."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError, connection

from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.schedule import ASK_AGAIN_AFTER_SECONDS
from webhooks_app.delivery.sql import sql_for
from webhooks_app.models import DeliveryAttempt, QueueEntry, QueueLane

from ..support.rows import deliveries, emit_one

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def open_connection(monkeypatch):
    monkeypatch.setattr(connection, "close", lambda: None)


@pytest.fixture
def cut(monkeypatch):
    """Let the next claims be committed, without an acknowledgement."""
    statements = type(sql_for("default"))
    claim = statements.claim

    def cut(number=1):
        left = [None] * number

        def claim_without_answer(self, asks, terms):
            picked = claim(self, asks, terms)
            if left and picked.claims:
                left.pop()
                raise OperationalError("server closed the connection unexpectedly")
            return picked

        monkeypatch.setattr(statements, "claim", claim_without_answer)

    return cut


def test_no_attempt_is_spent_without_a_request(alice, webhook, receiver, clock, cut):
    for _ in range(3):
        emit_one(alice)
    cut(number=3)
    transport = receiver(200)

    Engine(transport=transport, clock=clock).run_until_idle()

    assert len(transport.requests) == 3
    assert list(DeliveryAttempt.objects.values_list("number", "result")) == [(1, "succeeded")] * 3


def test_the_attempt_counts_if_the_worker_died(alice, webhook, queue, other_queue, clock, cut):
    emit_one(alice)
    cut()
    with pytest.raises(OperationalError):
        queue.claim(10)
    clock.advance(46)

    (lost,) = other_queue.claim(10)

    assert (lost.is_lost, lost.number) == (True, 1)


def test_a_claim_that_is_committed_late_is_released_too(alice, webhook, queue, clock, monkeypatch):
    emit_one(alice)
    committed = []

    def fail(self, asks, terms):
        committed.append(terms)
        raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(type(sql_for("default")), "claim", fail)
        with pytest.raises(OperationalError):
            queue.claim(10)
    assert queue.release_unacknowledged()
    now = committed[0].now
    QueueEntry.objects.update(attempt=1, claimed_at=now, leased_until=now + timedelta(seconds=45), worker=queue.worker)
    assert not queue.release_unacknowledged()

    clock.advance(ASK_AGAIN_AFTER_SECONDS[-1])

    assert queue.release_unacknowledged()
    (entry,) = QueueEntry.objects.all()
    assert (entry.attempt, entry.claimed_at, entry.worker) == (0, None, None)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"worker": 7}, id="of another worker"),
        pytest.param({"claimed_at": "2026-01-01T00:00:00Z"}, id="of another time"),
    ],
)
def test_another_claim_is_not_released(alice, webhook, queue, clock, cut, changed):
    emit_one(alice)
    cut()
    with pytest.raises(OperationalError):
        queue.claim(10)
    QueueEntry.objects.update(**changed)

    assert queue.release_unacknowledged()

    (entry,) = QueueEntry.objects.all()
    assert entry.attempt == 1
    assert entry.claimed_at is not None


def test_the_slots_of_released_claims_are_free_for_other_workers(alice, webhook, queue, other_queue, clock, cut):
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    webhook.max_in_flight = 1
    webhook.save()
    emit_one(alice)
    cut()
    with pytest.raises(OperationalError):
        queue.claim(10)

    assert queue.release_unacknowledged()
    queue.publish()

    (claim,) = other_queue.claim(10)
    assert (claim.number, deliveries()[0].attempt_count) == (1, 0)
