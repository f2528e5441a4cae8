"""Deliveries of webhooks whose secret cannot be decrypted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.core.management.base import CommandError
from django.utils import timezone

from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.slots import Slots
from webhooks_app.management.base import follow
from webhooks_app.models import ApiKey, DeliveryAttempt, QueueLane, SigningKey
from webhooks_app.models.hold import HoldReason, hold_of

from ..support.queues import LookingQueue
from ..support.rows import deliveries, emit_one, make_webhook

pytestmark = pytest.mark.django_db

KEY, ANOTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@pytest.fixture
def unreadable(alice, settings):
    """A webhook whose secret was encrypted with a removed key."""
    settings.WEBHOOKS_ENCRYPTION_KEYS = [KEY]
    webhook = make_webhook(alice)
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER]
    return webhook


def test_an_unsignable_delivery_is_held_without_an_attempt(alice, unreadable, receiver, deliver, clock):
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    (delivery,) = deliveries()
    assert (transport.requests, DeliveryAttempt.objects.count()) == ([], 0)
    assert (delivery.state, delivery.entry.attempt, delivery.entry.claimed_at) == ("pending", 0, None)
    assert hold_of(delivery, now=clock()).reason == HoldReason.UNSIGNED


def test_a_worker_with_the_key_claims_it_at_once(alice, unreadable, receiver, clock, settings):
    emit_one(alice)
    Engine(transport=receiver(200), clock=clock).run_until_idle()
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER, KEY]
    transport = receiver(200)

    Engine(transport=transport, clock=clock).run_until_idle()

    assert len(transport.sent("ppt.generation.failed")) == 1
    assert (deliveries()[0].state, deliveries()[0].attempt_count) == ("succeeded", 1)


def test_a_worker_tries_again_at_growing_intervals(alice, unreadable, clock):
    emit_one(alice)
    queue = LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=Slots(window=10, cap=5))
    waits = []
    for _ in range(8):
        (claim,) = queue.claim(10)
        queue.hold_unsigned([claim])
        assert queue.claim(10) == []
        until = QueueLane.objects.get().unsigned_until
        waits.append(round((until - clock()).total_seconds()))
        clock.now = until

    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]


def test_one_line_is_logged_for_each_webhook(alice, unreadable, receiver, deliver, caplog):
    for _ in range(20):
        emit_one(alice)

    deliver(receiver(200))

    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert unreadable.pk in record.getMessage()
    assert "Add that key to WEBHOOKS_ENCRYPTION_KEYS again" in record.getMessage()
    assert record.exc_info is None


def test_no_log_record_contains_a_key_or_an_encrypted_value(alice, unreadable, receiver, deliver, caplog):
    emit_one(alice)

    deliver(receiver(200))

    assert caplog.text
    stored = unreadable.current_key("native").encrypted_key
    assert [text for text in (KEY, ANOTHER, stored) if text in caplog.text] == []


def test_no_attempt_is_made_with_an_invalid_key(alice, webhook, receiver, deliver, settings, caplog):
    settings.WEBHOOKS_ENCRYPTION_KEYS = ["no Fernet key"]
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert (transport.requests, DeliveryAttempt.objects.count(), record.exc_info) == ([], 0, None)
    assert "WEBHOOKS_ENCRYPTION_KEYS contains an invalid Fernet key" in record.getMessage()


def test_the_hold_is_visible_in_the_api_and_the_console(alice, unreadable, receiver, deliver, admin_client, clock):
    emit_one(alice)
    deliver(receiver(200))
    QueueLane.objects.update(unsigned_until=timezone.now() + timedelta(minutes=5))
    _, key = ApiKey.objects.make(owner=alice)
    (delivery,) = deliveries()

    record = admin_client.get(f"/v1/deliveries/{delivery.pk}", headers={"authorization": f"Bearer {key}"}).json()
    page = admin_client.get(f"/admin/webhooks_app/delivery/{delivery.pk}/change/")
    listed = admin_client.get("/admin/webhooks_app/delivery/")

    assert record["hold"]["reason"] == "unsigned"
    assert "A worker cannot sign for the webhook" in page.text
    assert "not signable" in listed.text


def test_a_command_that_waits_shows_the_hold(alice, unreadable, receiver, deliver):
    emit_one(alice)
    deliver(receiver(200))
    QueueLane.objects.update(unsigned_until=timezone.now() + timedelta(minutes=5))

    with pytest.raises(CommandError, match=r"is still pending\. It is held: not signable\."):
        follow(deliveries()[0], print, timeout_seconds=0.01)


@pytest.mark.parametrize("stored", ["", "a secret in plain text", "gAAAAAB", "ü"], ids=repr)
def test_a_stored_value_is_never_used_as_the_secret_itself(alice, webhook, receiver, deliver, stored):
    SigningKey.objects.update(encrypted_key=stored)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert transport.requests == []
