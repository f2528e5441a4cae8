"""The next attempt of a pending delivery at once, in its series of attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.delivery.engine import Engine
from webhooks_app.exceptions import AlreadyInStateError, RateLimitedError, WebhookStateError
from webhooks_app.models import AuditEntry, Delivery, QueueEntry, QueueLane, Webhook
from webhooks_app.models.hold import holds_of
from webhooks_app.operations.actors import PROJECT, Operator
from webhooks_app.operations.sending import redeliver, retry, send_test_event
from webhooks_app.signals import deliveries_created

from ..support.rows import EVENT_TYPE, deliveries, emit_one, make_webhook
from .conftest import ImpatientTransport, ManualClock
from .test_order import claimed, emitted, record_all

pytestmark = pytest.mark.django_db


def attempted(transport: ImpatientTransport, clock: ManualClock) -> Delivery:
    """Make the first attempt of the only delivery of an event, and return the delivery."""
    Engine(transport=transport, clock=clock).run_until_idle(await_retries=False)
    return loaded(deliveries()[0])


def loaded(delivery: Delivery) -> Delivery:
    return Delivery.objects.select_related("event", "webhook__lane", "queue_entry").get(pk=delivery.pk)


def test_the_attempt_is_made_at_once_and_counts_as_one_of_the_series(alice, webhook, receiver, clock):
    event, transport = emit_one(alice), receiver(500, 500, 200)
    delivery = attempted(transport, clock)
    assert delivery.due_at > timezone.now()

    assert retry(delivery, actor=PROJECT) == delivery
    clock.now = timezone.now()
    again = attempted(transport, clock)

    assert (again.attempt_count, again.state, Delivery.objects.filter(event=event).count()) == (2, "pending", 1)
    assert [each.number for each in again.attempts.order_by("number")] == [1, 2]
    assert timedelta(seconds=4) < again.due_at - clock.now < timedelta(seconds=7)  # the delay after the second attempt
    assert len(transport.sent(EVENT_TYPE)) == 2


def test_the_last_attempt_gives_a_delivery_up_even_by_hand(alice, webhook, receiver, clock):
    emit_one(alice)
    transport = receiver(500)
    for _ in range(3):
        retry(attempted(transport, clock), actor=PROJECT)
        clock.now = timezone.now()

    ended = attempted(transport, clock)

    assert (ended.state, ended.attempt_count) == ("given_up", 4)
    with pytest.raises(WebhookStateError, match="Redeliver it"):
        retry(ended, actor=PROJECT)


def test_a_delivery_in_flight_is_not_attempted_twice(alice, webhook, receiver, clock, queue, other_queue):
    emit_one(alice)
    delivery = attempted(receiver(500), clock)
    QueueEntry.objects.update(due_at=clock())
    claims, _events = claimed(queue)

    with pytest.raises(WebhookStateError, match="in flight"):
        retry(delivery, actor=PROJECT)

    assert other_queue.claim(10) == []
    record_all(queue, claims, clock)
    assert loaded(delivery).state == "succeeded"


def test_a_page_from_before_the_result_changes_nothing(alice, webhook, receiver, clock, queue):
    emit_one(alice)
    seen = attempted(receiver(500), clock)
    QueueEntry.objects.update(due_at=clock())
    record_all(queue, claimed(queue)[0], clock)

    with pytest.raises(WebhookStateError, match="is finished"):
        retry(seen, actor=PROJECT)

    assert seen.state == "succeeded"
    assert not QueueEntry.objects.exists()


def test_a_delivery_that_is_due_is_left_as_it_is(alice, webhook):
    emit_one(alice)
    delivery = loaded(deliveries()[0])

    with pytest.raises(AlreadyInStateError, match="due already"):
        retry(delivery, actor=PROJECT)

    assert loaded(delivery).due_at == delivery.due_at
    assert not AuditEntry.objects.filter(action="delivery.retried").exists()


def test_the_first_of_a_group_is_retried_and_the_others_wait_for_it(alice, receiver, clock, queue):
    make_webhook(alice, order="webhook")
    first, second, third = emitted(alice, None, None, None)
    record_all(queue, claimed(queue)[0], clock, status=500)
    clock.now = timezone.now()
    assert claimed(queue)[1] == []

    for event in (second, third):
        with pytest.raises(WebhookStateError, match="waits for an earlier one"):
            retry(loaded(Delivery.objects.get(event=event, kind="event")), actor=PROJECT)
    retry(loaded(Delivery.objects.get(event=first, kind="event")), actor=PROJECT)
    clock.now = timezone.now()
    claims, events = claimed(queue)

    assert events == [first]
    record_all(queue, claims, clock)
    assert claimed(queue)[1] == [second]


def test_the_rate_limit_still_holds_the_attempt(alice, receiver, clock, queue):
    webhook = make_webhook(alice, rate_limit=1)
    emit_one(alice)
    delivery = attempted(receiver(500), clock)
    now = clock.now = timezone.now()
    QueueLane.objects.filter(pk=webhook.pk).update(next_slot_at=now + timedelta(seconds=30))

    retry(delivery, actor=PROJECT)

    (hold,) = holds_of([loaded(delivery)], now=timezone.now())
    assert (hold.reason, hold.until) == ("rate_limited", now + timedelta(seconds=30))
    clock.now = timezone.now()
    assert queue.claim(10) == []
    clock.advance(31)
    assert [claim.delivery_id for claim in queue.claim(10)] == [delivery.pk]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda webhook: webhook.pause(), "is paused. Resume it first", id="paused"),
        pytest.param(lambda webhook: webhook.await_verification(), "is not verified", id="unverified"),
    ],
)
def test_a_hold_that_a_new_time_does_not_end_is_named(alice, webhook, receiver, clock, change, words):
    emit_one(alice)
    delivery = attempted(receiver(500), clock)
    change(Webhook.objects.get())

    with pytest.raises(WebhookStateError, match=words):
        retry(delivery, actor=PROJECT)

    assert loaded(delivery).due_at == delivery.due_at


def test_a_pending_delivery_is_not_redelivered(alice, webhook, receiver, clock):
    emit_one(alice)
    delivery = attempted(receiver(500), clock)

    with pytest.raises(WebhookStateError, match="Retry it now instead"):
        redeliver(delivery, actor=PROJECT)

    assert Delivery.objects.filter(kind="event").count() == 1


def test_a_test_that_is_retried_counts_as_a_test(webhook, receiver, clock, settings):
    settings.WEBHOOKS_TEST_RATE = "1/min"
    test = send_test_event(webhook, EVENT_TYPE)
    Engine(transport=receiver(500), clock=clock).run_until_idle(await_retries=False)

    retry(loaded(test), actor=Operator())
    QueueEntry.objects.filter(pk=test.pk).update(due_at=timezone.now() + timedelta(hours=1))
    with pytest.raises(RateLimitedError):
        retry(loaded(test), actor=Operator())


def test_it_is_audited_and_wakes_the_workers(alice, webhook, receiver, clock, django_capture_on_commit_callbacks):
    emit_one(alice)
    delivery = attempted(receiver(500), clock)
    woken: list[Any] = []
    deliveries_created.connect(lambda webhook_ids, **_: woken.append(webhook_ids), weak=False, dispatch_uid="woken")

    with django_capture_on_commit_callbacks(execute=True):
        retry(delivery, actor=Operator(name="root"))

    deliveries_created.disconnect(dispatch_uid="woken")
    assert woken == [[webhook.pk]]
    entry = AuditEntry.objects.get(action="delivery.retried")
    assert (entry.subject, entry.owner_id, entry.actor_name) == (delivery.pk, alice.pk, "root")
    before, after = entry.changes["due_at"]
    assert after < before
