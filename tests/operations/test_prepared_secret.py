"""Rotations in two steps, as a receiver sees them that reads one header only."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from webhooks_app.conf import known_signatures
from webhooks_app.exceptions import WebhookVerificationError
from webhooks_app.models import AuditEntry, SigningKey, Webhook
from webhooks_app.signatures import NEXT_SIGNATURE_HEADER, PREVIOUS_SIGNATURE_HEADER, StandardSignature

from ..support.rows import deliveries, emit_one, make_webhook

pytestmark = pytest.mark.django_db

SCHEMES = ["native", "standard", "standard-ed25519", "checksum"]
DAY = timedelta(days=1)


@pytest.fixture
def configured(settings):
    settings.WEBHOOKS_SIGNATURES = [
        "native",
        "standard",
        "standard-ed25519",
        "tests.toys.signature.ChecksumSignature",
    ]


@pytest.fixture
def signed(alice, receiver, deliver):
    """Deliver one event, and return its request."""

    def deliver_one():
        emit_one(alice)
        transport = receiver(200)
        deliver(transport)
        return transport.requests[-1]

    return deliver_one


def signing_by(webhook, name):
    scheme = known_signatures()[name]
    webhook.signatures = [name]
    webhook.create_missing_keys()
    webhook.save()
    return scheme


def accepts(scheme, keys, request):
    """Return True if a receiver accepts the request that reads the scheme's named headers, and no other."""
    hidden = (NEXT_SIGNATURE_HEADER, PREVIOUS_SIGNATURE_HEADER)
    headers = {name: value for name, value in request.headers if name not in hidden}
    try:
        scheme.verify(request.body, headers, [scheme.verification_key(key) for key in keys])
    except WebhookVerificationError:
        return False
    return True


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("activation", ["by hand", "by time"])
def test_a_receiver_of_one_header_refuses_nothing_in_a_whole_rotation(
    configured, webhook, signed, clock, name, activation
):
    scheme = signing_by(webhook, name)
    old = webhook.current_key(scheme.key_scheme).key
    accepted = [accepts(scheme, [old], signed())]

    new = webhook.rotate_secret(scheme=scheme.key_scheme, activate_at=timezone.now() + DAY)
    accepted += [accepts(scheme, [old], signed()) for _ in range(2)]
    accepted += [accepts(scheme, [old, new], signed()) for _ in range(2)]
    if activation == "by hand":
        webhook.activate_secret(scheme=scheme.key_scheme)
    else:
        clock.now = timezone.now() + DAY + timedelta(minutes=1)
    accepted += [accepts(scheme, [old, new], signed()), accepts(scheme, [new], signed())]

    assert accepted == [True] * 7


def test_a_receiver_of_one_secret_replaces_it_at_the_activation(webhook, signed):
    scheme, old = known_signatures()["native"], webhook.secret
    new = webhook.rotate_secret(activate_at=timezone.now() + DAY)

    before = signed()
    webhook.activate_secret()
    after = signed()

    assert [accepts(scheme, [key], before) for key in (old, new)] == [True, False]
    assert [accepts(scheme, [key], after) for key in (old, new)] == [False, True]


def test_the_other_secret_signs_a_header_of_its_own(webhook, signed):
    webhook.rotate_secret(activate_at=timezone.now() + DAY)
    before = dict(signed().headers)
    webhook.activate_secret()
    after = dict(signed().headers)

    assert (NEXT_SIGNATURE_HEADER in before, PREVIOUS_SIGNATURE_HEADER in before) == (True, False)
    assert (NEXT_SIGNATURE_HEADER in after, PREVIOUS_SIGNATURE_HEADER in after) == (False, True)


def test_a_receiver_with_this_app_may_replace_its_secret_early(webhook, signed):
    new = webhook.rotate_secret(activate_at=timezone.now() + DAY)

    request = signed()

    assert known_signatures()["native"].verify(request.body, dict(request.headers), [new])


def test_a_withdrawn_secret_signs_nothing(webhook, signed):
    old = webhook.secret
    webhook.rotate_secret(activate_at=timezone.now() + DAY)
    webhook.withdraw_secret()

    request = signed()

    assert NEXT_SIGNATURE_HEADER not in dict(request.headers)
    assert accepts(known_signatures()["native"], [old], request)
    assert [key.valid_until for key in SigningKey.objects.all()] == [None]


def test_the_overlap_begins_with_the_activation(webhook):
    webhook.rotate_secret(activate_at=timezone.now() + DAY, overlap=timedelta(hours=2))
    assert (webhook.previous_secret_until, webhook.has_previous_keys) == (None, False)

    webhook.activate_secret()

    remaining = webhook.previous_secret_until - timezone.now()
    assert timedelta(minutes=119) < remaining <= timedelta(minutes=120)
    assert webhook.secret_activates_at is None


def test_expiring_the_old_secret_leaves_the_one_that_signs(webhook):
    old = webhook.secret
    webhook.rotate_secret(activate_at=timezone.now() + DAY)

    webhook.revoke_previous_secret()

    assert (webhook.secret, SigningKey.objects.count()) == (old, 2)


def test_a_rotation_at_once_replaces_a_prepared_secret(webhook):
    webhook.rotate_secret(activate_at=timezone.now() + DAY)

    new = webhook.rotate_secret(overlap=timedelta(0))

    assert [key.key for key in SigningKey.objects.all()] == [new]


def test_an_unreadable_secret_is_replaced_at_once(webhook):
    SigningKey.objects.update(encrypted_key="nonsense")
    webhook = Webhook.objects.get()

    new = webhook.rotate_secret(activate_at=timezone.now() + DAY)

    assert (webhook.secret, webhook.secret_activates_at) == (new, None)


@pytest.fixture
def unfit(alice, monkeypatch):
    """A webhook with a secret that its scheme no longer accepts, and a prepared one that it does."""
    webhook = make_webhook(alice, signatures=["standard"])
    old, new = webhook.secret, webhook.rotate_secret(activate_at=timezone.now() + DAY)
    problem = StandardSignature.problem_with_key
    monkeypatch.setattr(
        StandardSignature, "problem_with_key", lambda self, key: "Too old." if key == old else problem(self, key)
    )
    return webhook, new


def test_with_an_unfit_secret_events_wait_rather_than_being_signed_by_the_prepared_one(
    unfit, alice, receiver, deliver, caplog
):
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    (delivery,) = deliveries()
    assert (transport.requests, delivery.state, delivery.entry.attempt) == ([], "pending", 0)
    assert "The webhook's secret cannot sign by standard: Too old. Rotate the secret." in caplog.text


def test_an_unfit_secret_is_replaced_at_once(unfit, alice, receiver, deliver):
    webhook, _prepared = unfit
    emit_one(alice)
    new = webhook.rotate_secret(activate_at=timezone.now() + DAY)
    transport = receiver(200)

    deliver(transport)

    (request,) = transport.requests
    assert webhook.secret_activates_at is None
    assert accepts(StandardSignature(), [new], request)


def test_a_scheme_that_a_prepared_secret_does_not_fit_is_refused(webhook):
    webhook.rotate_secret("a text of sixteen", activate_at=timezone.now() + DAY)
    webhook.signatures = ["native", "standard"]

    with pytest.raises(ValidationError, match="standard: It needs a secret of the form"):
        webhook.full_clean()


def test_each_step_is_audited(webhook):
    AuditEntry.objects.all().delete()

    webhook.rotate_secret(activate_at=timezone.now() + DAY)
    webhook.activate_secret()
    webhook.rotate_secret(activate_at=timezone.now() + DAY)
    webhook.withdraw_secret()

    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    steps = ["prepared", "activated", "prepared", "withdrawn"]
    assert actions == [f"webhook.secret_{step}" for step in steps]


def test_an_activation_after_more_than_a_week_is_refused(webhook):
    with pytest.raises(ValidationError, match="within the next 7 days"):
        webhook.rotate_secret(activate_at=timezone.now() + timedelta(days=8))
