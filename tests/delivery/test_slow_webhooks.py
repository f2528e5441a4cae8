"""Slow webhooks: their lost claims need no slot, and on SQLite new ones are claimed together."""

from __future__ import annotations

from datetime import timedelta

import pytest

from webhooks_app.delivery import schedule
from webhooks_app.delivery.slots import Slots
from webhooks_app.delivery.sql import sql_for
from webhooks_app.models import QueueEntry, QueueLane, Webhook

from ..support.queues import LookingQueue
from ..support.rows import deliveries, emit_one, make_webhook

pytestmark = pytest.mark.django_db

BEFORE_THE_LEASE_ENDS, UNTIL_IT_HAS_ENDED = 30, 16


@pytest.fixture
def new_queue(clock):
    """A queue of another worker with one slot for slow webhooks."""
    return lambda: LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=Slots(window=4, cap=1))


@pytest.fixture
def slow(alice):
    """Two webhooks known as slow, each with a delivery."""
    webhooks = [make_webhook(alice, "ppt.generation.failed"), make_webhook(alice, "file.uploaded")]
    QueueLane.objects.ensure([webhook.pk for webhook in webhooks])
    QueueLane.objects.update(is_fast=False)
    return webhooks


def emit_to_second(owner):
    from webhooks_app import emit, registry

    emit("file.uploaded", registry.get("file.uploaded").example, owner=owner)


def test_lost_claims_of_a_slow_webhook_are_found_without_a_slow_slot(alice, slow, new_queue, clock):
    emit_one(alice)
    new_queue().claim(10)
    clock.advance(BEFORE_THE_LEASE_ENDS)
    for _ in range(2):
        emit_to_second(alice)
    busy = new_queue()
    assert [claim.webhook_id for claim in busy.claim(10)] == [slow[1].pk]
    clock.advance(UNTIL_IT_HAS_ENDED)

    claims = busy.claim(10)

    assert [(claim.webhook_id, claim.is_lost) for claim in claims] == [(slow[0].pk, True)]
    assert busy.claim(10) == []


def test_lost_claims_of_the_webhook_that_uses_all_slots_are_found(alice, slow, new_queue, clock):
    emit_one(alice)
    new_queue().claim(10)
    clock.advance(BEFORE_THE_LEASE_ENDS)
    Webhook.objects.update(max_in_flight=5)
    for _ in range(60):
        emit_one(alice)
    busy = new_queue()
    assert len(busy.claim(10)) == len(busy.slots) == 1
    clock.advance(UNTIL_IT_HAS_ENDED)

    assert [claim.is_lost for claim in busy.claim(10)] == [True]
    assert len(busy.slots) == 1


def test_lost_claims_of_a_webhook_at_its_limit_are_found(alice, new_queue, clock):
    webhook = make_webhook(alice, max_in_flight=2)
    QueueLane.objects.update_or_create(webhook=webhook, defaults={"is_fast": True})
    emit_one(alice)
    new_queue().claim(10)
    clock.advance(BEFORE_THE_LEASE_ENDS)
    emit_one(alice)
    busy = new_queue()
    assert len(busy.claim(10)) == 1
    Webhook.objects.update(max_in_flight=1)
    clock.advance(UNTIL_IT_HAS_ENDED)

    assert [claim.is_lost for claim in busy.claim(10)] == [True]


def test_lost_claims_are_found_while_large_claims_save_looks(alice, clock, monkeypatch):
    monkeypatch.setattr(schedule, "MANY", 1)
    paused = make_webhook(alice, "ppt.generation.failed")
    busy = make_webhook(alice, "file.uploaded")
    QueueLane.objects.ensure([paused.pk, busy.pk])
    QueueLane.objects.update(is_fast=True)
    dead, living = (
        LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=Slots(window=400, cap=50))
        for _ in range(2)
    )
    emit_one(alice)
    dead.claim(10)
    Webhook.objects.filter(pk=paused.pk).update(paused_at=clock())
    clock.advance(44.5)

    lost = []
    for seconds in (0, 0.98, 0.03):  # the last claim saves a look
        clock.advance(seconds)
        emit_to_second(alice)
        lost += [claim.webhook_id for claim in living.claim(10) if claim.is_lost]

    assert lost == [paused.pk]


def test_lost_claims_of_a_paused_webhook_are_found(alice, slow, new_queue, clock):
    emit_one(alice)
    new_queue().claim(10)
    clock.advance(BEFORE_THE_LEASE_ENDS + UNTIL_IT_HAS_ENDED)
    emit_one(alice)
    Webhook.objects.update(paused_at=clock())

    assert [claim.is_lost for claim in new_queue().claim(10)] == [True]


def test_no_new_claim_is_made_along_with_lost_ones(alice, slow, new_queue, clock):
    emit_one(alice)
    new_queue().claim(10)
    clock.advance(BEFORE_THE_LEASE_ENDS + UNTIL_IT_HAS_ENDED)
    for _ in range(3):
        emit_one(alice)
    Webhook.objects.update(paused_at=clock())

    new_queue().claim(10)

    assert QueueEntry.objects.unclaimed().count() == len(deliveries()) - 1


@pytest.mark.only_on("sqlite")
def test_a_look_returns_to_skipped_slow_webhooks(alice, slow, clock):
    emit_one(alice)
    emit_to_second(alice)
    slots = Slots(window=2000, cap=50, slow_apart=sql_for("default").slow_claims_apart)
    queue = LookingQueue(clock=clock, slots=slots)
    queue.claim_of([slow[0].pk], 10)

    assert queue.claim(10) == []
    assert queue.look_again_at == clock() + timedelta(seconds=0.25)
    clock.advance(0.25)
    assert [claim.webhook_id for claim in queue.claim(10)] == [slow[1].pk]


def test_many_lost_claims_of_unknown_webhooks_do_not_break_the_next_claim(alice, slow, new_queue, clock, monkeypatch):
    monkeypatch.setattr(schedule, "MANY", 1)
    emit_one(alice)
    new_queue().claim(10)
    clock.advance(BEFORE_THE_LEASE_ENDS + UNTIL_IT_HAS_ENDED)
    Webhook.objects.update(paused_at=clock())
    other = new_queue()
    assert [claim.is_lost for claim in other.claim(10)] == [True]

    assert other.claim(10) == []
