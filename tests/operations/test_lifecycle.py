"""Repeated operations, the reason of a disabled webhook, and a repeated rotation."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission

from webhooks_app.encryption import encrypt
from webhooks_app.exceptions import AlreadyInStateError, WebhookStateError
from webhooks_app.models import AuditEntry, SigningKey, Webhook
from webhooks_app.operations import lifecycle, rotation
from webhooks_app.operations.actors import PROJECT, ApiCaller, Operator, StaffMember

from ..support.rows import deliveries

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("make", "operation"),
    [
        pytest.param(Webhook.pause, lifecycle.pause, id="paused"),
        pytest.param(lambda webhook: None, lifecycle.resume, id="not paused"),
        pytest.param(lambda webhook: webhook.disable("Too slow."), lifecycle.disable, id="disabled"),
        pytest.param(lambda webhook: None, lifecycle.enable, id="active"),
        pytest.param(Webhook.await_verification, lifecycle.enable, id="pending"),
    ],
)
def test_repeating_an_operation_raises_already_in_state_error(webhook, make, operation):
    make(webhook)
    AuditEntry.objects.all().delete()
    before = Webhook.objects.values().get()

    with pytest.raises(AlreadyInStateError):
        operation(webhook, actor=PROJECT)

    assert Webhook.objects.values().get() == before
    assert not AuditEntry.objects.exists()


def test_a_failed_webhook_can_be_verified_but_not_enabled(webhook):
    webhook.fail("No answer.")

    with pytest.raises(WebhookStateError, match="Verify it") as caught:
        lifecycle.enable(webhook, actor=PROJECT)

    assert not isinstance(caught.value, AlreadyInStateError)
    assert deliveries("verification") == []


@pytest.mark.parametrize("who", ["owner", "staff", "operator", "code"])
def test_the_reason_distinguishes_the_owner_from_the_operator(webhook, alice, django_user_model, who):
    root = django_user_model.objects.create_superuser("root")
    actors = {
        "owner": ApiCaller(account=alice, owner=alice),
        "staff": StaffMember(account=root),
        "operator": Operator(name="alice"),
        "code": PROJECT,
    }

    lifecycle.disable(webhook, actor=actors[who])

    expected = "Disabled by its account." if who == "owner" else "Disabled by the operator."
    assert Webhook.objects.get().status_reason == AuditEntry.objects.latest("id").reason == expected


def test_a_staff_member_is_the_owner_of_their_own_webhooks(webhook, alice):
    alice.user_permissions.set(Permission.objects.filter(codename="change_webhook"))

    lifecycle.disable(webhook, actor=StaffMember(account=alice))

    assert Webhook.objects.get().status_reason == "Disabled by its account."


def test_operations_on_a_deleted_webhook_are_refused(webhook):
    older = Webhook.objects.get()
    webhook.delete()

    with pytest.raises(WebhookStateError, match="no longer kept"):
        lifecycle.pause(older, actor=PROJECT)


def test_a_secret_rotated_in_the_meantime_is_not_replaced(webhook):
    asked_about = rotation.fingerprint_of_key(webhook)
    new = rotation.rotate_secret(webhook, actor=PROJECT, replaces=asked_about)

    with pytest.raises(WebhookStateError, match="rotated in the meantime"):
        rotation.rotate_secret(webhook, actor=PROJECT, replaces=asked_about)

    assert Webhook.objects.get().secret == new


def test_a_secret_re_encrypted_in_the_meantime_is_replaced(webhook):
    asked_about = rotation.fingerprint_of_key(webhook)
    SigningKey.objects.update(encrypted_key=encrypt(webhook.secret))

    new = rotation.rotate_secret(webhook, actor=PROJECT, replaces=asked_about)

    assert Webhook.objects.get().secret == new


def test_a_rotated_key_of_another_scheme_does_not_prevent_a_rotation(webhook):
    asked_about = rotation.fingerprint_of_key(webhook)
    rotation.rotate_secret(webhook, actor=PROJECT, scheme="standard-ed25519")

    new = rotation.rotate_secret(webhook, actor=PROJECT, replaces=asked_about)

    assert Webhook.objects.get().secret == new
