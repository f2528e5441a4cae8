"""Validation of registrations, and storage of their secrets."""

from __future__ import annotations

import base64

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ValidationError

from webhooks_app.exceptions import SecretUnreadableError
from webhooks_app.models import Webhook
from webhooks_app.operations.registration import register_webhook
from webhooks_app.protocol.ids import milliseconds_of

from ..support.rows import EVENT_TYPE, URL, make_webhook

pytestmark = pytest.mark.django_db


def refused(owner, **fields):
    """Return the fields that the registration refused."""
    with pytest.raises(ValidationError) as caught:
        register_webhook(**{"owner": owner, "url": URL, "event_types": [EVENT_TYPE], **fields})
    assert not Webhook.objects.exists()
    return caught.value.message_dict


def test_a_secret_is_generated_by_default(alice):
    webhook = make_webhook(alice)

    prefix, encoded = webhook.secret[:6], webhook.secret[6:]
    assert (prefix, len(base64.b64decode(encoded, validate=True))) == ("whsec_", 32)


def test_the_secret_in_the_table_is_not_readable(alice):
    webhook = make_webhook(alice, secret="a secret of our own")

    assert Webhook.objects.get().secret == "a secret of our own"
    assert "a secret of our own" not in str(Webhook.objects.values().get())
    assert "a secret" not in repr(webhook)


@pytest.mark.parametrize(
    "secret", ["", "x" * 15, "x" * 257, "a tab is\ta control", "no\0NUL in any secret", "\ud800" * 16]
)
def test_an_invalid_secret_is_refused(alice, secret):
    assert refused(alice, secret=secret).keys() == {"secret"}


@pytest.mark.parametrize("secret", ["x" * 16, "ü" * 256, "with spaces is fine too"])
def test_a_valid_secret_is_accepted(alice, secret):
    assert make_webhook(alice, secret=secret).secret == secret


@pytest.mark.parametrize(
    "event_types",
    [[], "ppt.generation.failed", [EVENT_TYPE, "no.such.type"], ["webhook.retry"], ["webhook.verification"], [1], {}],
    ids=repr,
)
def test_invalid_event_types_are_refused(alice, event_types):
    with pytest.raises(ValidationError) as caught:
        Webhook(owner=alice, url=URL, event_types=event_types).full_clean()

    assert "event_types" in caught.value.message_dict


def test_the_error_for_an_unknown_event_type_lists_the_known_ones(alice):
    (message,) = refused(alice, event_types=["no.such.type"])["event_types"]

    assert "no.such.type" in message
    assert "user.unsubscribed" in message


def test_duplicate_event_types_are_removed_in_order(alice):
    assert make_webhook(alice, "file.deleted", EVENT_TYPE, "file.deleted").event_types == ["file.deleted", EVENT_TYPE]


def test_a_refused_url_is_explained(alice, settings):
    settings.WEBHOOKS_ALLOWED_NETWORKS = []

    assert "127.0.0.1" in refused(alice)["url"][0]


def test_only_a_developer_is_told_how_to_allow_a_local_name(alice, settings):
    def refusal():
        return refused(alice, url="https://localhost/hooks")["url"][0]

    assert refusal().endswith("is a local name. Use a host that is reachable from the internet.")

    settings.DEBUG = True

    assert "WEBHOOKS_ALLOWED_NETWORKS" in refusal()


def test_the_same_url_can_be_registered_twice(alice):
    make_webhook(alice)
    make_webhook(alice)

    assert Webhook.objects.filter(url=URL).count() == 2


def test_the_number_of_webhooks_per_account_is_limited(alice, settings):
    settings.WEBHOOKS_MAX_WEBHOOKS_PER_OWNER = 1
    make_webhook(alice).soft_delete()
    make_webhook(alice)

    with pytest.raises(ValidationError, match="The limit of 1 "):
        make_webhook(alice)


def test_an_older_key_still_decrypts_a_secret(alice, settings):
    settings.WEBHOOKS_ENCRYPTION_KEYS = [old := Fernet.generate_key().decode()]
    make_webhook(alice, secret="a secret of our own")
    settings.WEBHOOKS_ENCRYPTION_KEYS = [Fernet.generate_key().decode(), old]

    assert Webhook.objects.get().secret == "a secret of our own"


def test_the_error_for_a_lost_key_has_a_hint(alice, settings):
    make_webhook(alice)
    settings.WEBHOOKS_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    with pytest.raises(SecretUnreadableError, match="WEBHOOKS_ENCRYPTION_KEYS"):
        _ = Webhook.objects.get().secret


def test_ids_have_the_documented_form_and_increase(alice):
    first, second = make_webhook(alice), make_webhook(alice)

    assert first.pk.startswith("wh_")
    assert first.pk[3:].isalnum()
    assert milliseconds_of(first.pk) <= milliseconds_of(second.pk)


@pytest.mark.parametrize("text", ["", "wh_", "wh_zz", "evt_" + "0" * 32, "x" * 5000, "wh_" + "0" * 32 + "\n", "\0"])
def test_an_invalid_id_finds_nothing(alice, text):
    make_webhook(alice)

    assert not Webhook.objects.filter(pk=text).exists()
