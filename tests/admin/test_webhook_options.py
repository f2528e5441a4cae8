"""Signatures, retries and headers of a webhook in the console."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

import pytest

from tests.support.rows import EVENT_TYPE, URL, emit_one, make_webhook
from webhooks_app.encryption import decrypt
from webhooks_app.models import Delivery, Webhook
from webhooks_app.testing import Webhooks

from .conftest import Page, shown_messages, shows, text

pytestmark = pytest.mark.django_db


def form(**changes: Any) -> dict[str, Any]:
    fields = {
        "audience": "every",
        "url": URL,
        "event_types": [EVENT_TYPE],
        "retry_notices": "on",
        "signatures": ["native"],
    }
    return {**fields, "retry_policy": "", "accepted_statuses": "200", "headers": "", **changes}


def stored() -> dict[str, str]:
    return {name: decrypt(token) for name, token in Webhook.objects.get().encrypted_headers}


def test_all_choices_are_set_in_the_form(superuser: Page) -> None:
    superuser.post(
        "webhook",
        "add",
        **form(
            signatures=["native", "standard-ed25519"],
            retry_policy="extended",
            accepted_statuses="2xx",
            order="key",
            headers="X-Tenant: acme\r\nX-Route:7",
            basic_auth="user",
            basic_password="pass",
        ),
    )

    webhook = Webhook.objects.get()
    assert webhook.signatures == ["native", "standard-ed25519"]
    assert (webhook.retry_policy, webhook.accepted_statuses, webhook.order) == ("extended", "2xx", "key")
    assert stored() == {"X-Tenant": "acme", "X-Route": "7", "Authorization": "Basic dXNlcjpwYXNz"}
    assert webhook.public_keys


def test_a_webhook_without_a_filter_has_an_empty_field(superuser: Page) -> None:
    page = superuser.get("webhook", "add").content.decode()

    assert re.search(r'<textarea name="filter"[^>]*>\s*</textarea>', page)


def test_a_shown_headers_line_keeps_its_value(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, headers={"X-Tenant": "value-4711"})

    page = superuser.settings_of(webhook).content.decode()
    superuser.post("webhook", "change", webhook.pk, **form(headers="X-Tenant: ********\r\nX-New: n"))

    assert "X-Tenant: ********" in page
    assert "value-4711" not in page
    assert stored() == {"X-Tenant": "value-4711", "X-New": "n"}


def test_a_refused_form_shows_names_without_the_entered_values(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, headers={"X-Tenant": "value-4711"})
    typed = form(url="ftp://example.com/", headers="X-Tenant: ********\r\nX-New: value-4712\r\nvalue-4713")

    page = superuser.post("webhook", "change", webhook.pk, **typed).content.decode()
    again = superuser.post("webhook", "change", webhook.pk, **form(headers="X-Tenant: ********\r\nX-New:"))

    assert re.search(r"<textarea name=\"headers\"[^>]*>\s*X-Tenant: \*{8}\s+X-New:\s*</textarea>", page)
    assert re.findall("value-471.", page) == []
    assert "Enter a name, a colon and a value on each line." in text(again)
    assert stored() == {"X-Tenant": "value-4711"}


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        pytest.param({"basic_password": "two"}, "me:two", id="only the password"),
        pytest.param({"basic_auth": "you"}, "you:one", id="only the user name"),
        pytest.param({"basic_auth": "you", "basic_password": "two"}, "you:two", id="both"),
        pytest.param({"description": "changed"}, "me:one", id="neither"),
        pytest.param(
            {"basic_password": "two", "headers": "Authorization: ********\r\nX-New: n"}, "me:two", id="a header"
        ),
    ],
)
def test_the_part_of_the_credentials_left_empty_is_sent_unchanged(
    superuser: Page, typed: dict[str, str], sent: str
) -> None:
    webhook = make_webhook(superuser.user, basic_auth=("me", "one"))

    superuser.post("webhook", "change", webhook.pk, **{**form(headers="Authorization: ********"), **typed})
    emit_one(superuser.user)
    with Webhooks() as webhooks:
        (request,) = webhooks.deliver()

    (value,) = (value for name, value in request.headers.items() if name.lower() == "authorization")
    scheme, _, credentials = value.partition(" ")
    assert (scheme, b64decode(credentials).decode()) == ("Basic", sent)


def test_a_part_of_credentials_for_a_new_host_is_refused(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, basic_auth=("me", "one"))
    typed = form(url="http://127.0.0.2:9000/hook", headers="Authorization: ********", basic_password="two")

    answer = superuser.post("webhook", "change", webhook.pk, **typed)

    assert shows(answer, "Enter the user name and the password: a new scheme, host or port of the URL drops stored")
    assert stored() == {"Authorization": "Basic bWU6b25l"}


def test_a_reserved_header_is_an_error_of_the_field(superuser: Page) -> None:
    answer = superuser.post("webhook", "add", **form(headers="Host: elsewhere"))

    assert "is reserved" in answer.content.decode()
    assert not Webhook.objects.exists()


def test_standard_with_another_secret_offers_rotation(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, secret="a secret in words, long enough")

    answer = superuser.post("webhook", "change", webhook.pk, **form(signatures=["native", "standard"]))

    assert "Rotate the secret first" in answer.content.decode()


def test_a_new_host_drops_unchanged_headers(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, headers={"X-Tenant": "acme"})

    superuser.post(
        "webhook", "change", webhook.pk, **form(url="http://127.0.0.2:9000/hook", headers="X-Tenant: ********")
    )

    webhook.refresh_from_db()
    assert (webhook.pending_url, webhook.pending_headers) == ("http://127.0.0.2:9000/hook", [])
    assert stored() == {"X-Tenant": "acme"}  # for the URL in use


def test_a_signature_is_removed_only_after_a_confirmation(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, signatures=["native", "standard-ed25519"])

    asked = superuser.post("webhook", "change", webhook.pk, **form())
    before = Webhook.objects.get().signatures
    superuser.post("webhook", "change", webhook.pk, **form(removes_signatures="on"))

    assert shows(asked, "Receivers that verify standard-ed25519 (webhook-signature) will refuse every request")
    assert (before, Webhook.objects.get().signatures) == (["native", "standard-ed25519"], ["native"])


def test_the_public_key_of_an_added_signature_is_shown(superuser: Page) -> None:
    webhook = make_webhook(superuser.user)

    answer = superuser.post("webhook", "change", webhook.pk, **form(signatures=["native", "standard-ed25519"]))

    (key,) = Webhook.objects.get().public_keys
    assert f"The new public key is {key['key']}. Receivers verify with it." in shown_messages(answer)


def test_deselecting_every_signature_says_that_they_stay(superuser: Page) -> None:
    webhook = make_webhook(superuser.user)

    answer = superuser.post("webhook", "change", webhook.pk, **form(signatures=[]))

    assert "No signature is selected. The signatures stay unchanged: native." in shown_messages(answer)
    assert Webhook.objects.get().signatures == ["native"]


@pytest.fixture
def paired(superuser: Page) -> Webhook:
    """A webhook that signs with its secret and with a key pair."""
    return make_webhook(superuser.user, signatures=["native", "standard-ed25519"])


def test_a_key_pair_is_rotated_and_its_public_key_shown(superuser: Page, paired: Webhook) -> None:
    (old,) = paired.public_keys
    page = superuser.act("rotate_secret", paired)

    answer = superuser.act("rotate_secret", paired, confirmed=True, scheme="standard-ed25519")

    new, previous = Webhook.objects.get().public_keys
    assert "native" in page.content.decode()
    assert (previous["key"], Webhook.objects.get().secret) == (old["key"], paired.secret)
    assert f"The new public key is {new['key']}." in shown_messages(answer)[0]
    shown = text(superuser.settings_of(paired))
    assert "(current)" in shown.partition(new["key"])[2][:60]
    assert "(previous, signs until" in shown.partition(old["key"])[2][:60]


def test_the_secret_beside_a_key_pair_is_rotated_and_shown_once(superuser: Page, paired: Webhook) -> None:
    before = paired.secret

    answer = superuser.act("rotate_secret", paired, confirmed=True, scheme="native")

    saved = Webhook.objects.get()
    assert saved.verification_keys[0] == saved.secret != before
    assert shows(answer, saved.secret)
    assert len(saved.public_keys) == 1


def test_a_rotation_of_an_unknown_key_asks_again(superuser: Page, paired: Webhook) -> None:
    page = superuser.act("rotate_secret", paired, confirmed=True, scheme="standard")

    assert page.context["form"].errors["scheme"]


def test_a_scheme_removed_in_the_meantime_is_not_replaced_by_another(superuser: Page, paired: Webhook) -> None:
    Webhook.objects.update(signatures=["native"])

    page = superuser.act("rotate_secret", paired, confirmed=True, scheme="standard-ed25519")

    assert page.context["form"].errors["scheme"]
    assert Webhook.objects.get().secret == paired.secret


def test_a_new_key_without_a_scheme_that_uses_it_is_announced(superuser: Page, paired: Webhook) -> None:
    Webhook.objects.update(signatures=["removed"])

    answer = superuser.act("rotate_secret", paired, confirmed=True)

    assert shown_messages(answer)[0].endswith("so the new key signs nothing yet.")


def test_replaced_keys_of_all_schemes_are_expired(superuser: Page, paired: Webhook) -> None:
    paired.rotate_secret()
    paired.rotate_secret(scheme="standard-ed25519")

    superuser.act("revoke_previous_secret", paired, confirmed=True)

    assert len(Webhook.objects.get().verification_keys) == 2


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        pytest.param("", "Quick retries: retries after 1 s, 5 s, 30 s", id="specification"),
        pytest.param("extended", "Retries for three days: retries after 5 s, 5 min, 30 min, 2 h", id="extended"),
    ],
)
def test_the_page_of_a_delivery_shows_its_retry_policy(superuser: Page, policy: str, shown: str) -> None:
    webhook = make_webhook(superuser.user, retry_policy=policy)
    emit_one(superuser.user)
    Webhook.objects.update(retry_policy="specification")

    page = superuser.get("delivery", "change", webhook.deliveries.get().pk)

    assert shows(page, shown)
    assert shows(page, "up to 10 % later") is (policy == "extended")


def test_a_retry_notice_has_no_retries(superuser: Page) -> None:
    webhook = make_webhook(superuser.user)
    event = emit_one(superuser.user)
    notice = Delivery.objects.queue(event=event, webhook=webhook, kind="retry_notice", max_attempts=1)

    assert shows(superuser.get("delivery", "change", notice.pk), "Quick retries: no retries")


def test_an_accepted_status_is_named(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, accepted_statuses="2xx")
    emit_one(superuser.user)
    with Webhooks() as webhooks:
        webhooks.receiver.answers = (204,)
        webhooks.deliver()

    page = superuser.get("delivery", "change", webhook.deliveries.get(kind="event").pk)

    assert shows(page, "Answered with status 204, which confirms receipt.")


def test_choices_that_are_no_longer_configured_stay_until_changed(superuser: Page) -> None:
    """A form submits several values in its own order."""
    types, gone = [EVENT_TYPE, "file.deleted"], {"signatures": ["native", "gone"], "retry_policy": "lost"}
    webhook = make_webhook(superuser.user, *types)
    Webhook.objects.update(**gone, filter={"error": {"$gone": 1}})
    reordered = {**gone, "signatures": ["gone", "native"], "event_types": types[::-1]}

    page = superuser.settings_of(webhook).content.decode()
    superuser.post(
        "webhook", "change", webhook.pk, **form(description="kept", filter='{"error": {"$gone": 1}}', **reordered)
    )
    kept = Webhook.objects.get()
    superuser.post("webhook", "change", webhook.pk, **form())

    assert "gone: no longer configured" in page
    assert "lost: no longer configured" in page
    assert (kept.description, kept.signatures, kept.retry_policy) == ("kept", ["native", "gone"], "lost")
    assert Webhook.objects.filter(signatures=["native"], retry_policy="").exists()
