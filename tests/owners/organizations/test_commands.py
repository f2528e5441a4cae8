"""Commands for organizations, given by name or key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core import mail
from django.core.management.base import CommandError

from tests.support.commands import run_command
from tests.support.rows import make_webhook
from webhooks_app.maintenance.outgoing import Mail, send
from webhooks_app.models import ApiKey, Event, Webhook
from webhooks_app.owners import owners

pytestmark = pytest.mark.django_db

DATA = json.dumps({"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"})


@pytest.mark.parametrize("field", ["name", "pk"])
def test_a_key_is_created_for_an_organization(acme: Any, field: str) -> None:
    run_command("create_api_key", str(getattr(acme, field)))

    assert ApiKey.objects.get().owner == acme


def test_an_ambiguous_name_is_refused_with_the_keys(acme: Any) -> None:
    type(acme).objects.create(name="Acme")

    with pytest.raises(CommandError, match=rf"Several owners are named 'Acme'\. .*{acme.pk}"):
        run_command("create_api_key", "Acme")


def test_an_organization_is_not_created_as_a_user(acme: Any) -> None:
    with pytest.raises(CommandError, match="--create-user requires that owners are users, but they are organizations"):
        run_command("create_api_key", "Initech", "--create-user")


def test_an_event_of_an_organization_is_emitted(acme: Any) -> None:
    run_command("emit_event", "file.deleted", "--owner", "Acme", "--data", DATA)

    assert Event.objects.get().owner == acme


def test_an_organization_is_forgotten(acme: Any) -> None:
    make_webhook(acme)

    run_command("forget_webhook_owner", str(acme.pk), "--yes")

    assert not Webhook.objects.exists()
    acme.refresh_from_db()


def test_demo_data_has_organizations_and_is_deleted_again(acme: Any, settings: Any) -> None:
    settings.DEBUG = True
    run_command("make_demo_data", "--deliveries", "300", "--owners", "2", "--webhooks", "6", "--days", "2")
    made = set(type(acme).objects.values_list("name", flat=True))

    run_command("make_demo_data", "--delete")

    assert made == {"Acme", "demo-1", "demo-2"}
    assert list(type(acme).objects.all()) == [acme]
    assert not Event.objects.exists()


def test_mails_go_to_the_active_members(acme: Any, amina: Any, django_user_model: Any) -> None:
    acme.members.add(django_user_model.objects.create_user("carl@example.com"))
    acme.members.add(django_user_model.objects.create_user("gone@example.com", is_active=False))
    webhook = make_webhook(acme)

    send(Mail("disabled", webhook.pk, acme, {"webhook": webhook, "since": webhook.created_at, "given_up": 3}))

    assert sorted(address for each in mail.outbox for address in each.to) == ["amina@example.com", "carl@example.com"]


def test_a_policy_can_have_other_recipients_than_members(acme: Any, amina: Any) -> None:
    class Contacts(type(owners())):  # type: ignore[misc]
        def recipients(self, owner: Any) -> list[str]:
            return [f"tech@{owner.name.lower()}.example"]

    assert Contacts().recipients(acme) == ["tech@acme.example"]


def test_the_test_kit_accepts_organizations(webhooks: Any, acme: Any) -> None:
    webhook = webhooks.register(acme, "file.deleted")

    run_command("emit_event", "file.deleted", "--owner", "Acme", "--data", DATA)

    assert webhook.owner == acme
    webhooks.assert_emitted("file.deleted", owner=acme)
