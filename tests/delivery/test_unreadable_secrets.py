"""What becomes of deliveries whose webhook's secret no key opens."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet

from webhooks_app.delivery.engine import Engine
from webhooks_app.models import DeliveryAttempt, Webhook

from ..making import deliveries, emit_one, make_webhook

pytestmark = pytest.mark.django_db

KEY, ANOTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@pytest.fixture
def unreadable(alice, settings):
    """A webhook whose secret was encrypted with a key that is no longer configured."""
    settings.WEBHOOKS_ENCRYPTION_KEYS = [KEY]
    webhook = make_webhook(alice)
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER]
    return webhook


def test_nothing_is_sent_and_each_attempt_says_what_to_do(alice, unreadable, receiver, deliver):
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    attempts = DeliveryAttempt.objects.filter(delivery=deliveries()[0])
    assert transport.requests == []
    assert [attempt.result for attempt in attempts] == ["internal_error"] * 4
    assert all("Put the key that was in use back into WEBHOOKS_ENCRYPTION_KEYS" in each.message for each in attempts)
    assert deliveries()[0].state == "given_up"


def test_no_message_and_no_log_has_a_key_or_what_is_encrypted(alice, unreadable, receiver, deliver, caplog):
    emit_one(alice)

    deliver(receiver(200))

    said = caplog.text + "".join(DeliveryAttempt.objects.values_list("message", flat=True))
    assert said
    assert [text for text in (KEY, ANOTHER, unreadable.encrypted_secret) if text in said] == []


def test_a_retry_goes_out_once_the_key_is_back(alice, unreadable, receiver, clock, settings):
    emit_one(alice)
    transport = receiver(200)
    Engine(transport=transport, clock=clock).run_until_idle(await_retries=False)
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER, KEY]

    Engine(transport=transport, clock=clock).run_until_idle()

    assert len(transport.sent("ppt.generation.failed")) == 1
    assert (deliveries()[0].state, deliveries()[0].attempt_count) == ("succeeded", 2)


def test_a_key_that_is_none_sends_nothing_either(alice, webhook, receiver, deliver, settings):
    settings.WEBHOOKS_ENCRYPTION_KEYS = ["no Fernet key"]
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert transport.requests == []
    assert {attempt.result for attempt in DeliveryAttempt.objects.all()} == {"internal_error"}


@pytest.mark.parametrize("stored", ["", "a secret in plain text", "gAAAAAB", "ü"], ids=repr)
def test_what_is_stored_is_never_taken_for_the_secret_itself(alice, webhook, receiver, deliver, stored):
    Webhook.objects.update(encrypted_secret=stored)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert transport.requests == []
