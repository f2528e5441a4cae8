"""Signatures, retries and headers of a webhook in the console."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.rows import EVENT_TYPE, URL, make_webhook
from webhooks_app.encryption import decrypt
from webhooks_app.models import Webhook

from .conftest import Page

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


def test_a_shown_headers_line_keeps_its_value(superuser: Page) -> None:
    webhook = make_webhook(superuser.user, headers={"X-Tenant": "value-4711"})

    page = superuser.get("webhook", "change", webhook.pk).content.decode()
    superuser.post("webhook", "change", webhook.pk, **form(headers="X-Tenant: ********\r\nX-New: n"))

    assert "X-Tenant: ********" in page
    assert "value-4711" not in page
    assert stored() == {"X-Tenant": "value-4711", "X-New": "n"}


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

    assert stored() == {}
