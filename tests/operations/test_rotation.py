"""Signatures during a rotation, verified as by a receiver."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from webhooks_app.exceptions import WebhookVerificationError
from webhooks_app.models import SigningKey, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.receiver import verify
from webhooks_app.signatures import PREVIOUS_SIGNATURE_HEADER

from ..support.rows import EVENT_TYPE, deliveries, emit_one, unverified

pytestmark = pytest.mark.django_db

OLD, NEW = "the secret of before", "the secret from now on"


@pytest.fixture
def webhook(webhook):
    webhook.rotate_secret(OLD, overlap=timedelta(0))
    return webhook


def accepts(secret, request):
    """Return True if a receiver with this secret accepts the request."""
    try:
        verify(request.body, dict(request.headers), secret, tolerance=None)
    except WebhookVerificationError:
        return False
    return True


def has_second_signature(request):
    return PREVIOUS_SIGNATURE_HEADER in dict(request.headers)


def test_receivers_with_either_secret_verify_during_the_overlap(alice, webhook, receiver, deliver):
    webhook.rotate_secret(NEW)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    (request,) = transport.requests
    assert (accepts(NEW, request), accepts(OLD, request)) == (True, True)


def test_the_specifications_header_has_only_the_current_signature(alice, webhook, receiver, deliver):
    webhook.rotate_secret(NEW)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    headers = dict(transport.requests[0].headers)
    assert headers.pop(PREVIOUS_SIGNATURE_HEADER).startswith("sha256=")
    assert verify(transport.requests[0].body, headers, NEW, tolerance=None).type == EVENT_TYPE


def test_without_an_overlap_the_old_secret_no_longer_signs(alice, webhook, receiver, deliver):
    webhook.rotate_secret(NEW, overlap=timedelta(0))
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    (request,) = transport.requests
    assert (accepts(NEW, request), accepts(OLD, request)) == (True, False)
    assert not has_second_signature(request)


def test_a_retry_after_the_end_of_the_overlap_has_one_signature(alice, webhook, receiver, deliver, clock):
    webhook.rotate_secret(NEW, overlap=timedelta(hours=1))
    clock.now = webhook.previous_secret_until - timedelta(seconds=10)
    emit_one(alice)
    transport = receiver(500)

    deliver(transport)

    attempts = [request for request in transport.requests if EVENT_TYPE in request.headers[3]]
    assert [has_second_signature(request) for request in attempts] == [True, True, True, False]
    assert accepts(NEW, attempts[3])


def test_a_handshake_during_the_overlap_has_both_signatures(webhook, receiver, deliver):
    webhook.rotate_secret(NEW)
    start_verification(unverified(webhook), actor=PROJECT)
    transport = receiver()

    deliver(transport)

    (request,) = transport.requests
    assert (accepts(NEW, request), accepts(OLD, request)) == (True, True)
    assert Webhook.objects.get().status == "active"


def test_a_second_rotation_ends_the_overlap_of_the_first(alice, webhook, receiver, deliver):
    webhook.rotate_secret("a secret in between")
    webhook.rotate_secret(NEW)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    (request,) = transport.requests
    assert [accepts(secret, request) for secret in (NEW, "a secret in between", OLD)] == [True, True, False]


def test_repeating_the_current_secret_keeps_the_overlap(alice, webhook, receiver, deliver):
    webhook.rotate_secret(NEW)
    webhook.rotate_secret(NEW)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert accepts(OLD, transport.requests[0])


@pytest.mark.parametrize(
    "cut_off",
    [
        pytest.param(lambda webhook: webhook.revoke_previous_secret(), id="revoked"),
        pytest.param(lambda webhook: webhook.rotate_secret(NEW, overlap=timedelta(0)), id="rotated to the same"),
        pytest.param(lambda webhook: webhook.rotate_secret(overlap=timedelta(0)), id="rotated again"),
    ],
)
def test_an_overlap_can_be_ended_early(alice, webhook, receiver, deliver, cut_off):
    webhook.rotate_secret(NEW)
    cut_off(webhook)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert not has_second_signature(transport.requests[0])
    assert not accepts(OLD, transport.requests[0])


def test_an_attempt_between_two_rotations_uses_the_secret_of_that_time(alice, webhook, receiver, deliver):
    emit_one(alice)
    webhook.rotate_secret(NEW)
    transport = receiver(200)

    deliver(transport)

    assert accepts(NEW, transport.requests[0])


def test_the_default_overlap_is_a_day_by_the_clock_of_the_database(webhook, settings):
    webhook.rotate_secret(NEW)

    from_now = webhook.previous_secret_until - timezone.now()
    assert abs(from_now - timedelta(days=1)) < timedelta(minutes=1)


def test_an_unreadable_previous_secret_is_skipped_and_logged(alice, webhook, receiver, deliver, caplog):
    webhook.rotate_secret(NEW)
    SigningKey.objects.exclude(valid_until=None).update(encrypted_key="nonsense")
    for _ in range(5):
        emit_one(alice)
        transport = receiver(200)
        deliver(transport)

    (request,) = transport.requests
    assert accepts(NEW, request)
    assert not has_second_signature(request)
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage().startswith(f"Webhook {webhook.pk} is signed without its previous secret")
    assert record.exc_info is None


def test_an_unreadable_secret_is_replaced_without_an_overlap(alice, webhook, receiver, deliver):
    SigningKey.objects.update(encrypted_key="nonsense")
    webhook.rotate_secret(NEW)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert accepts(NEW, transport.requests[0])
    assert [delivery.state for delivery in deliveries()] == ["succeeded"]
