"""The limits of a webhook apply to claims."""

from __future__ import annotations

from datetime import timedelta

import pytest

from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.models import QueueEntry, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.transport import Exchange, Response

from ..support.queues import LookingQueue
from ..support.rows import deliveries, emit_one, make_webhook
from ..support.slots import open_slots
from .conftest import recorded

pytestmark = pytest.mark.django_db


@pytest.fixture
def make_queue(clock):
    return lambda: LookingQueue(using="default", clock=clock, lease=timedelta(hours=1), slots=open_slots(cap=1000))


def claimed_in(seconds, clock, *queues, limit=500, step=0.1):
    """Claim with all queues in turn, every ``step`` seconds. Return the number of claims."""
    number = 0
    for _ in range(round(seconds / step)):
        number += sum(len(queue.claim(limit)) for queue in queues)
        clock.advance(step)
    return number


def test_a_webhook_can_have_a_lower_limit_of_its_own(alice, make_queue):
    make_webhook(alice, max_in_flight=2)
    for _ in range(5):
        emit_one(alice)

    assert len(make_queue().claim(100)) == 2


def test_the_handshake_of_a_new_url_takes_one_place_of_the_limit(alice, make_queue):
    webhook = make_webhook(alice, max_in_flight=2)
    update_webhook(webhook, url="https://new.example.com/hook", actor=PROJECT)
    for _ in range(2):
        emit_one(alice)

    assert [claim.kind for claim in make_queue().claim(100)] == ["verification", "event"]


@pytest.mark.only_on("sqlite", "postgresql")
@pytest.mark.parametrize("rate", [0.5, 3, 10])
def test_a_rate_limit_applies_over_a_minute_and_all_workers(alice, clock, make_queue, rate):
    make_webhook(alice, rate_limit=rate)
    for _ in range(int(rate * 60) + 50):
        emit_one(alice)
    queues = [make_queue(), make_queue()]
    claimed_in(2, clock, *queues)

    assert claimed_in(60, clock, *queues) == pytest.approx(60 * rate, rel=0.05)


def test_an_idle_webhook_accumulates_one_second_of_its_rate(alice, clock, make_queue):
    make_webhook(alice, rate_limit=10)
    for _ in range(100):
        emit_one(alice)
    clock.advance(3600)

    assert len(make_queue().claim(500)) == 11


def test_rate_limited_deliveries_are_sent_later(alice, clock, receiver):
    make_webhook(alice, rate_limit=5)
    for _ in range(20):
        emit_one(alice)
    transport = receiver(200)
    began_at = clock()

    Engine(transport=transport, clock=clock).run_until_idle()

    assert [delivery.state for delivery in deliveries()] == ["succeeded"] * 20
    assert 2.5 < (clock() - began_at).total_seconds() < 8


def test_a_webhook_at_its_limit_does_not_delay_others(alice, make_queue):
    make_webhook(alice, rate_limit=0.01)
    free = make_webhook(alice)
    for _ in range(10):
        emit_one(alice)
    queue = make_queue()

    claims = [claim for _ in range(3) for claim in queue.claim(500)]

    assert [claim.webhook_id for claim in claims].count(free.pk) == 10


def test_removing_a_limit_soon_takes_effect(alice, clock, make_queue):
    make_webhook(alice, rate_limit=0.01)
    for _ in range(10):
        emit_one(alice)
    queue = make_queue()
    queue.claim(500)
    queue.claim(500)
    Webhook.objects.update(rate_limit=None)

    clock.advance(5)

    assert len(queue.claim(500)) == 9


def fail_once(queue, clock):
    """Make the first attempt of an event fail a second ago, so that its retry is due and its notice has not expired."""
    (claim,) = queue.claim(500)
    request = request_for(claim, now=clock(), timeout_seconds=30)
    failed = Exchange(request=request, duration_seconds=0, response=Response(status=500))
    recorded(queue, [finish(failed)], clock())


def kinds_claimed(seconds, clock, queue):
    kinds = []
    for _ in range(round(seconds / 0.05)):
        clock.advance(0.05)
        kinds += [claim.kind for claim in queue.claim(500)]
    return kinds


@pytest.mark.parametrize(("rate", "expected"), [(0.5, ["event"]), (4, ["retry_notice", "event"])])
def test_a_notice_never_uses_the_slot_of_its_retry(alice, clock, make_queue, rate, expected):
    make_webhook(alice, rate_limit=rate)
    emit_one(alice)
    queue = make_queue()
    fail_once(queue, clock)

    assert kinds_claimed(4, clock, queue) == expected
    left = {delivery.state for delivery in deliveries("retry_notice")} - {"pending"}
    assert left == ({"cancelled"} if rate < 1 else set())


def test_an_expired_delivery_does_not_count_towards_the_limit_of_its_webhook(alice, clock, queue, other_queue):
    make_webhook(alice, max_in_flight=1)
    emit_one(alice)
    QueueEntry.objects.update(expires_at=clock())
    assert queue.claim(10) == []
    emit_one(alice)

    clock.advance(0.1)
    assert queue.schedule.publish_at <= clock.monotonic() + 0.001
    queue.publish()

    assert len(other_queue.claim(10)) == 1
