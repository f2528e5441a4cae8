"""The event types of an account, the public catalogue, and code that verifies requests."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from webhooks_app.event_types import registry
from webhooks_app.models import Webhook
from webhooks_app.pages.verification import LANGUAGES

from .conftest import Customer
from .test_webhooks import text

pytestmark = pytest.mark.django_db

TYPE = "ppt.generation.failed"


def address(*args: str) -> str:
    return reverse(f"webhooks_catalogue:event-type{'' if args else 's'}", args=args)


def test_everybody_can_read_the_public_catalogue(client: Client) -> None:
    listed, shown = client.get(address()), client.get(address(TYPE))

    assert address(TYPE) in text(listed)
    assert "Example" in text(shown)
    assert 'id="code-python"' in text(shown)
    assert "<nav" not in text(listed) + text(shown)
    assert listed.headers["Content-Security-Policy"]


def test_the_public_catalogue_has_only_public_types(client: Client, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.WithoutFailures"
    operational = next(each.name for each in registry if each.operational)

    assert TYPE not in text(client.get(address()))
    assert [client.get(address(name)).status_code for name in (TYPE, operational, "no.type")] == [404] * 3


def test_a_webhook_has_its_verification_code(amina: Customer) -> None:
    page = amina.get("webhook-code", amina.webhook.pk)

    assert [each.name for each in page.context["samples"]] == list(LANGUAGES)
    assert "X-Webhook-Signature" in text(page)
    assert amina.url("webhook-code", amina.webhook.pk) in text(amina.get("webhook", amina.webhook.pk))


@pytest.mark.parametrize(
    ("signatures", "languages"),
    [
        pytest.param(["native", "standard"], list(LANGUAGES), id="both"),
        pytest.param(["standard"], list(LANGUAGES), id="standard"),
        pytest.param(["standard-ed25519"], ["python", "javascript"], id="key pair"),
    ],
)
def test_a_webhook_has_the_code_for_its_signatures(
    amina: Customer, signatures: list[str], languages: list[str]
) -> None:
    Webhook.objects.filter(pk=amina.webhook.pk).update(signatures=signatures)

    page = amina.get("webhook-code", amina.webhook.pk)

    assert [each.name for each in page.context["samples"]] == languages
    assert "<code>webhook-signature</code>" in text(page)
    assert ("X-Webhook-Signature" in text(page)) is ("native" in signatures)
    assert ("WEBHOOK_PUBLIC_KEY" in text(page)) is (signatures == ["standard-ed25519"])
