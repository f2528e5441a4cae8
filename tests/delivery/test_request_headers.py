"""Signatures and custom headers of a webhook, at the receiver and in the log."""

from __future__ import annotations

import json

import pytest
from cryptography.fernet import Fernet
from django.utils import timezone

from webhooks_app import __version__
from webhooks_app.management.commands.reencrypt_webhook_secrets import reencrypt
from webhooks_app.models import Delivery, DeliveryAttempt, Webhook
from webhooks_app.models.hold import HoldReason, hold_of
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.receiver import verify
from webhooks_app.signatures import BaseSignature

from ..api.conftest import client_of
from ..support.rows import EVENT_TYPE, URL, emit_one, make_webhook, unverified

pytestmark = pytest.mark.django_db

ALL = ["native", "standard", "standard-ed25519"]


class Shouting(BaseSignature):
    """A toy scheme: the key and the length of the body."""

    name = "shouting"
    signature_header = "X-Shout"
    header_names = ("X-Shout",)

    def new_key(self):
        return "hey"

    def sign(self, message, keys):
        return " ".join(f"{key.upper()}-{len(message.body)}-{message.timestamp}" for key in keys)

    def headers(self, message, signature):
        return (("X-Shout", signature),)

    def verify(self, body, headers, keys):
        key, length, timestamp = headers["X-Shout"].split("-")
        assert (key, int(length)) == (keys[0].upper(), len(body))
        return int(timestamp)


def sent(transport):
    (request,) = transport.requests
    return dict(request.headers)


@pytest.mark.parametrize("signatures", [["native"], ["standard"], ["standard-ed25519"], ALL], ids="+".join)
def test_a_receiver_verifies_with_the_keys_of_every_scheme(alice, receiver, deliver, signatures):
    webhook = make_webhook(alice, signatures=signatures)
    event = emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    keys = webhook.verification_keys
    assert [verify(transport.requests[0].body, sent(transport), key).id for key in keys] == [event.pk] * len(keys)
    assert ("X-Webhook-Signature" in sent(transport)) is ("native" in signatures)
    assert ("webhook-id" in sent(transport)) is (signatures != ["native"])


def test_both_standard_versions_share_one_header(alice, receiver, deliver):
    make_webhook(alice, signatures=ALL)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    versions = [part.partition(",")[0] for part in sent(transport)["webhook-signature"].split(" ")]
    assert versions == ["v1", "v1a"]


def test_a_handshake_has_the_id_of_its_delivery(alice, receiver, deliver):
    webhook = make_webhook(alice, signatures=["standard"])
    delivery = start_verification(unverified(webhook), actor=PROJECT)
    transport = receiver()

    deliver(transport)

    assert sent(transport)["webhook-id"] == delivery.pk
    assert Webhook.objects.get().status == "active"


def test_during_a_rotation_every_valid_key_signs(alice, receiver, deliver):
    webhook = make_webhook(alice, signatures=ALL)
    webhook.rotate_secret()
    webhook.rotate_secret(scheme="standard-ed25519")
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    versions = [part.partition(",")[0] for part in sent(transport)["webhook-signature"].split(" ")]
    assert versions == ["v1", "v1", "v1a", "v1a"]
    assert all(verify(transport.requests[0].body, sent(transport), key) for key in webhook.verification_keys)
    assert len(webhook.verification_keys) == 4


def test_an_old_secret_in_another_form_does_not_sign_with_the_standard_scheme(alice, receiver, deliver):
    webhook = make_webhook(alice, secret="a secret in words, long enough")
    webhook.rotate_secret()
    Webhook.objects.update(signatures=["native", "standard"])
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert len(sent(transport)["webhook-signature"].split(" ")) == 1
    assert "X-Webhook-Signature-Previous" in sent(transport)


def test_custom_headers_are_sent_and_only_their_names_logged(alice, receiver, deliver):
    make_webhook(alice, headers={"X-Tenant": "acme"}, basic_auth=("user", "pass"))
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    attempt = DeliveryAttempt.objects.get()
    assert (sent(transport)["X-Tenant"], sent(transport)["Authorization"]) == ("acme", "Basic dXNlcjpwYXNz")
    assert attempt.header_names == "X-Tenant,Authorization"
    assert "acme" not in json.dumps(DeliveryAttempt.objects.values().get(), default=str)
    assert "X-Tenant: ********\r\nAuthorization: ********\r\n" in attempt.request_header


def test_the_log_rebuilds_the_header_lines_of_all_schemes(alice, receiver, deliver):
    make_webhook(alice, signatures=ALL)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    lines = DeliveryAttempt.objects.get().request_header.split("\r\n")
    assert [line for line in (f"{name}: {value}" for name, value in sent(transport).items()) if line not in lines] == []


def test_a_single_native_signature_is_stored_as_it_is(alice, webhook, receiver, deliver):
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    attempt = DeliveryAttempt.objects.get()
    assert (attempt.signatures, attempt.header_names) == (sent(transport)["X-Webhook-Signature"], "")


def test_nothing_is_sent_if_headers_cannot_be_decrypted(alice, receiver, deliver, settings):
    settings.WEBHOOKS_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    webhook = make_webhook(alice, headers={"X-Tenant": "acme"})
    settings.WEBHOOKS_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    webhook.rotate_secret()
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert transport.requests == []
    assert not DeliveryAttempt.objects.exists()
    assert hold_of(Delivery.objects.get(), now=timezone.now()).reason == HoldReason.UNSIGNED


def test_headers_are_reencrypted(alice, receiver, deliver, settings):
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    settings.WEBHOOKS_ENCRYPTION_KEYS = [old]
    make_webhook(alice, headers={"X-Tenant": "acme", "X-Route": "7"})
    settings.WEBHOOKS_ENCRYPTION_KEYS = [new, old]

    assert (reencrypt(dry_run=True).renewed, reencrypt().renewed, reencrypt().current) == (3, 3, 3)

    settings.WEBHOOKS_ENCRYPTION_KEYS = [new]
    emit_one(alice)
    transport = receiver(200)
    deliver(transport)
    assert sent(transport)["X-Route"] == "7"


def test_a_custom_scheme_signs_and_is_verified(alice, receiver, deliver, settings):
    settings.WEBHOOKS_SIGNATURES = ["native", f"{__name__}.Shouting"]
    new = {"url": URL, "events": [EVENT_TYPE], "signatures": ["shouting"]}
    made = client_of(alice).call("POST", "/v1/webhooks", new).json()
    Webhook.objects.update(status="active")
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    body = transport.requests[-1].body
    assert made["signatures"] == ["shouting"]
    assert dict(transport.requests[-1].headers)["X-Shout"].startswith(f"HEY-{len(body)}-")
    assert verify(body, dict(transport.requests[-1].headers), "hey", schemes=(Shouting(),)).type
    assert "X-Shout: HEY-" in DeliveryAttempt.objects.last().request_header


def test_a_delivery_of_a_removed_scheme_is_held_and_logged(alice, receiver, deliver, settings, caplog):
    settings.WEBHOOKS_SIGNATURES = [f"{__name__}.Shouting"]
    make_webhook(alice, signatures=["shouting"])
    settings.WEBHOOKS_SIGNATURES = ["native"]
    emit_one(alice)

    deliver(receiver(200))

    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "shouting is not configured" in record.getMessage()
    assert not DeliveryAttempt.objects.exists()
    assert hold_of(Delivery.objects.get(), now=timezone.now()).reason == HoldReason.UNSIGNED


OWN_AGENT = f"webhooks_app/{'.'.join(__version__.split('.')[:2])}"


@pytest.mark.parametrize(
    ("chosen", "site_url", "agent"),
    [
        pytest.param("", "", OWN_AGENT, id="the app"),
        pytest.param("", "https://app.example.com:8443/de/", f"app.example.com {OWN_AGENT}", id="the site and the app"),
        pytest.param("", f"https://{'a' * 120}.example", OWN_AGENT, id="a site whose name is too long"),
        pytest.param("Acme/1 (+https://acme.example)", "https://a.example", "Acme/1 (+https://acme.example)", id="own"),
        pytest.param("a" * 120, "", "a" * 120, id="the longest"),
        pytest.param("Acme\r\nX-Admin: yes", "", OWN_AGENT, id="invalid, with checks skipped"),
        pytest.param("a" * 121, "", OWN_AGENT, id="too long, with checks skipped"),
    ],
)
def test_requests_name_their_sender(alice, receiver, deliver, settings, chosen, site_url, agent):
    settings.WEBHOOKS_USER_AGENT, settings.WEBHOOKS_SITE_URL = chosen, site_url
    make_webhook(alice)
    emit_one(alice)
    transport = receiver(200)

    deliver(transport)

    assert sent(transport)["User-Agent"] == agent
    assert f"\r\nUser-Agent: {agent}\r\n" in DeliveryAttempt.objects.get().request_header
