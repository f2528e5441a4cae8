"""A paused webhook: held deliveries, permitted operations, and the resumption."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webhooks_app import send_test_event
from webhooks_app.delivery.schedule import MANY
from webhooks_app.delivery.sending import finish, finish_lost, request_for
from webhooks_app.exceptions import WebhookStateError
from webhooks_app.models import Delivery, DeliveryAttempt, QueueEntry, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import enable, pause, resume, start_verification
from webhooks_app.operations.registration import update_webhook
from webhooks_app.signals import deliveries_created, webhook_paused, webhook_resumed
from webhooks_app.transport import Exchange, Response

from ..delivery.conftest import recorded
from ..support.queues import LookingQueue
from ..support.rows import EVENT_TYPE, URL, deliveries, emit_one, end_deliveries, make_webhook, unverified
from ..support.slots import open_slots

pytestmark = pytest.mark.django_db


def new_queue(clock, cap=16):
    return LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=open_slots(cap=cap))


@pytest.fixture
def queue(clock):
    return new_queue(clock)


def answered(claim, clock, status=200):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    return finish(Exchange(request=request, duration_seconds=0.1, response=Response(status=status)))


def test_pending_and_later_deliveries_are_held_and_then_sent(alice, webhook, receiver, deliver):
    before = emit_one(alice)
    webhook.pause()
    meanwhile = emit_one(alice)
    transport = receiver(200)

    deliver(transport)
    assert transport.requests == []
    webhook.resume()
    deliver(transport)

    assert [envelope["id"] for envelope in transport.sent()] == [before.pk, meanwhile.pk]
    assert [delivery.state for delivery in deliveries()] == ["succeeded", "succeeded"]


def test_held_deliveries_are_sent_longest_due_first_within_the_limit(alice, webhook, clock):
    events = [emit_one(alice) for _ in range(4)]
    for place, event in enumerate(events):
        QueueEntry.objects.filter(event=event).update(due_at=clock() - timedelta(minutes=place))
    webhook.pause()
    assert new_queue(clock).claim(10) == []
    webhook.resume()

    claims = new_queue(clock, cap=3).claim(10)

    assert {claim.event_id for claim in claims} == {event.pk for event in events[1:]}


def test_other_webhooks_are_not_affected_by_a_pause(alice, queue):
    paused, running = make_webhook(alice), make_webhook(alice)
    paused.pause()
    emit_one(alice)

    assert [claim.webhook_id for claim in queue.claim(10)] == [running.pk]


def test_a_webhook_paused_after_the_look_has_no_claims(alice, webhook, queue, monkeypatch):
    emit_one(alice)
    look = queue.sql.due_webhooks

    def look_and_pause(now, after):
        page = look(now, after=after)
        Webhook.objects.get().pause()
        monkeypatch.setattr(queue.sql, "due_webhooks", look)
        return page

    monkeypatch.setattr(queue.sql, "due_webhooks", look_and_pause)

    assert queue.claim(10) == []
    assert deliveries()[0].entry.attempt == 0


def test_a_busy_webhook_has_no_claims_after_a_pause(alice, webhook, clock):
    queue = new_queue(clock, cap=1000)
    for _ in range(MANY + 1):
        emit_one(alice)
    assert len(queue.claim(MANY)) == MANY
    assert queue.schedule.busy == [webhook.pk]

    webhook.pause()

    assert queue.claim(10) == []


def test_requests_in_flight_finish_and_their_retries_are_held(alice, webhook, queue, clock):
    emit_one(alice)
    (claim,) = queue.claim(10)
    webhook.pause()

    assert len(recorded(queue, [answered(claim, clock, 500)], clock())) == 1
    clock.advance(5)
    assert queue.claim(10) == []

    webhook.resume()
    assert [claim.number for claim in queue.claim(10) if claim.kind == "event"] == [2]


def test_a_claim_lost_during_a_pause_is_recorded_and_its_retry_is_held(alice, webhook, queue, clock):
    emit_one(alice)
    queue.claim(10)
    webhook.pause()
    clock.advance(46)

    (lost,) = queue.claim(10)
    recorded(queue, [finish_lost(lost, clock())], clock())

    assert DeliveryAttempt.objects.get().result == "worker_lost"
    assert deliveries()[0].state == "pending"
    clock.advance(60)
    assert queue.claim(10) == []


def test_held_deliveries_do_not_delay_the_end_of_an_engine(alice, webhook, queue):
    emit_one(alice)
    webhook.pause()

    assert queue.next_due_at() is None


def test_a_held_backlog_is_not_read(alice, webhook, queue, clock):
    emit_one(alice)
    webhook.pause()
    new_queue(clock).claim(10)  # prepares the statements of this session

    with CaptureQueriesContext(connection) as captured:
        queue.claim(10)

    assert len(captured) == 2  # the webhooks with due deliveries, and their lost claims among the first few
    (found,) = queue.sql.due_webhooks(clock(), after=None)
    assert (found.webhook_id, found.due_at) == (webhook.pk, None)


def test_pausing_and_resuming_send_signals_and_wake_workers(webhook, django_capture_on_commit_callbacks):
    heard = []
    for signal in (webhook_paused, webhook_resumed, deliveries_created):

        def hear(signal, **kwargs):
            heard.append((signal, kwargs.get("webhook_id")))

        signal.connect(hear, weak=False, dispatch_uid="hearing")
    try:
        with django_capture_on_commit_callbacks(execute=True):
            webhook.pause()
            webhook.resume()
    finally:
        for signal in (webhook_paused, webhook_resumed, deliveries_created):
            signal.disconnect(dispatch_uid="hearing")

    assert heard == [(webhook_paused, webhook.pk), (webhook_resumed, webhook.pk), (deliveries_created, None)]


@pytest.mark.parametrize(
    ("before", "verb", "message"),
    [
        (Webhook.pause, pause, "is already paused"),
        (lambda webhook: None, resume, "is not paused"),
        (lambda webhook: webhook.disable("Off."), pause, "is disabled"),
        (lambda webhook: webhook.fail("No answer."), pause, "failed its verification"),
        (Webhook.soft_delete, pause, "is deleted"),
        (Webhook.soft_delete, resume, "is deleted"),
    ],
    ids=["twice", "running", "disabled", "failed", "deleted", "resume-deleted"],
)
def test_pausing_and_resuming_depend_on_the_state(webhook, before, verb, message):
    before(webhook)

    with pytest.raises(WebhookStateError, match=message):
        verb(Webhook.objects.get(), actor=PROJECT)


@pytest.mark.parametrize(
    "ask",
    [partial(start_verification, actor=PROJECT), lambda webhook: send_test_event(webhook, EVENT_TYPE)],
    ids=["verification", "test"],
)
def test_tests_and_verifications_are_refused_for_a_paused_webhook(webhook, ask):
    unverified(webhook).pause()

    with pytest.raises(WebhookStateError, match="Resume it first"):
        ask(webhook)
    assert not Delivery.objects.exists()


def test_a_redelivery_is_held_but_that_of_a_test_is_refused(alice, webhook, queue):
    emit_one(alice)
    test = send_test_event(webhook, EVENT_TYPE)
    end_deliveries(state="given_up")
    webhook.pause()

    assert deliveries()[0].redeliver().state == "pending"
    with pytest.raises(WebhookStateError, match="Resume it first"):
        Delivery.objects.get(pk=test.pk).redeliver()


def test_the_url_of_an_unverified_webhook_is_verified_when_it_is_resumed(alice, receiver, deliver):
    webhook = make_webhook(alice, status="pending")
    webhook.pause()
    update_webhook(webhook, url=f"{URL}/elsewhere", actor=PROJECT)
    transport = receiver(200)

    deliver(transport)
    assert transport.requests == []
    webhook.resume()
    deliver(transport)

    assert Webhook.objects.get().status == "active"


@pytest.mark.parametrize(
    "end", [lambda webhook: webhook.disable("Off."), Webhook.soft_delete], ids=["disabled", "deleted"]
)
def test_stopping_a_webhook_ends_its_pause_and_cancels_deliveries(alice, webhook, end):
    emit_one(alice)
    webhook.pause()

    end(webhook)

    assert Webhook.objects.get().paused_at is None
    assert deliveries()[0].state == "cancelled"


def test_a_webhook_disabled_during_a_pause_is_not_paused_after_enabling(webhook, receiver, deliver):
    webhook.pause()
    webhook.disable("Off.")
    enable(webhook, actor=PROJECT)

    deliver(receiver(200))

    assert Webhook.objects.get().status == "active"
