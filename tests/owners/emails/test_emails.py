"""Owners that are users without names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from tests.api.conftest import client_of
from tests.support.commands import run_command
from tests.support.rows import EVENT_TYPE, URL, make_webhook
from webhooks_app.maintenance.outgoing import Mail, send
from webhooks_app.models import ApiKey, AuditEntry, Event, Webhook

pytestmark = pytest.mark.django_db

DATA = json.dumps({"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"})


@pytest.fixture
def console(django_user_model: Any) -> Client:
    client = Client()
    client.force_login(django_user_model.objects.create_superuser("root@example.com"))
    return client


@pytest.mark.parametrize("name", ["amina@example.com", "AMINA@example.com"])
def test_a_key_is_created_for_an_address_as_at_login(amina: Any, name: str) -> None:
    run_command("create_api_key", name)

    assert ApiKey.objects.get().owner == amina


def test_a_user_is_created_with_its_key(django_user_model: Any) -> None:
    run_command("create_api_key", "new@example.com", "--create-user")

    assert ApiKey.objects.get().owner == django_user_model.objects.get(email="new@example.com")


def test_an_event_of_an_address_is_emitted(amina: Any) -> None:
    run_command("emit_event", "file.deleted", "--owner", "amina@example.com", "--data", DATA)

    assert Event.objects.get().owner == amina


def test_a_key_authenticates_the_user(amina: Any) -> None:
    answer = client_of(amina).call("POST", "/v1/webhooks", {"url": URL, "events": [EVENT_TYPE]})

    assert answer.status_code == 201
    assert AuditEntry.objects.get(action="webhook.created").actor == amina


def test_the_console_finds_and_shows_addresses(amina: Any, console: Client) -> None:
    form = {"audience": "one", "owner": "amina@example.com", "url": "https://receiver.example.com/"}
    console.post("/admin/webhooks_app/webhook/add/", {**form, "event_types": ["file.deleted"]})

    webhook = Webhook.objects.get()
    assert webhook.owner == amina
    for address in (
        "webhook/?owner=amina@example.com",
        "webhook/?q=amina@example.com",
        f"webhook/{webhook.pk}/change/",
    ):
        assert "amina@example.com" in console.get(f"/admin/webhooks_app/{address}").content.decode()


def test_mails_go_to_the_address(amina: Any) -> None:
    webhook = make_webhook(amina)

    send(Mail("disabled", webhook.pk, amina, {"webhook": webhook, "since": webhook.created_at, "given_up": 3}))

    assert mail.outbox[0].to == ["amina@example.com"]


def test_demo_data_has_addresses_and_is_deleted_again(amina: Any, django_user_model: Any, settings: Any) -> None:
    settings.DEBUG = True
    run_command("make_demo_data", "--deliveries", "200", "--owners", "2", "--webhooks", "6", "--days", "2")
    made = django_user_model.objects.filter(email="demo-1@demo.invalid").exists()

    run_command("make_demo_data", "--delete")

    assert made
    assert list(django_user_model.objects.all()) == [amina]
