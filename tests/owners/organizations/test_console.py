"""The console for members of organizations, and for staff who manage all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from tests.support.rows import emit_one, make_webhook
from webhooks_app.models import ApiKey, Webhook

pytestmark = pytest.mark.django_db

LISTS = ["webhook", "event", "delivery", "apikey", "auditentry", "replay"]
FORM = {"url": "https://receiver.example.com/", "event_types": ["file.deleted"]}


@pytest.fixture
def login(django_user_model: Any) -> Callable[..., Client]:
    """Log in a staff member with all permissions but one."""

    def login(email: str, *organizations: Any, is_superuser: bool = False) -> Client:
        user = django_user_model.objects.create_user(email, is_staff=True, is_superuser=is_superuser)
        user.organizations.set(organizations)
        own = Permission.objects.filter(content_type__app_label="webhooks_app").exclude(codename="manage_all_webhooks")
        user.user_permissions.set(own)
        client = Client()
        client.force_login(user)
        return client

    return login


def page(client: Client, path: str, **query: str) -> str:
    response = client.get(f"/admin/webhooks_app/{path}/", query)
    assert response.status_code == 200, (path, response)
    return response.content.decode()


@pytest.fixture
def rows(acme: Any, globex: Any) -> dict[str, Webhook]:
    """A webhook, an event and a key of each organization."""
    webhooks = {"Acme": make_webhook(acme), "Globex": make_webhook(globex)}
    for owner in (acme, globex):
        emit_one(owner)
        ApiKey.objects.make(owner=owner, name=f"key of {owner.name}")
    return webhooks


@pytest.mark.parametrize("name", LISTS)
def test_staff_of_several_organizations_filter_by_them(
    login: Callable[..., Client], rows: dict[str, Webhook], acme: Any, globex: Any, name: str
) -> None:
    client = login("berta@example.com", acme, globex)

    everything = page(client, name)

    assert f"owner={acme.pk}" in everything
    assert ">Globex</a>" in everything
    assert page(client, name, owner=str(acme.pk))
    assert page(client, name, owner="Globex")


def test_the_filter_shows_the_rows_of_one_organization(
    login: Callable[..., Client], rows: dict[str, Webhook], acme: Any, globex: Any
) -> None:
    client = login("berta@example.com", acme, globex)

    both, one = page(client, "webhook"), page(client, "webhook", owner=str(acme.pk))

    assert all(webhook.pk in both for webhook in rows.values())
    assert rows["Acme"].pk in one
    assert rows["Globex"].pk not in one


def test_staff_see_no_other_organization(
    login: Callable[..., Client], rows: dict[str, Webhook], acme: Any, globex: Any
) -> None:
    client = login("berta@example.com", acme)

    for name in LISTS:
        shown = page(client, name, owner=str(globex.pk))
        assert "Globex" not in shown
        assert rows["Globex"].pk not in shown
    assert client.get(f"/admin/webhooks_app/webhook/{rows['Globex'].pk}/change/").status_code == 302


def test_staff_of_one_organization_need_not_choose_it(login: Callable[..., Client], acme: Any) -> None:
    client = login("berta@example.com", acme)

    assert 'name="owner"' not in page(client, "webhook/add")
    client.post("/admin/webhooks_app/webhook/add/", FORM)

    assert Webhook.objects.get().owner == acme


def test_staff_of_several_organizations_choose_one_of_them(
    login: Callable[..., Client], acme: Any, globex: Any
) -> None:
    client = login("berta@example.com", globex, acme)

    form = page(client, "webhook/add")
    client.post("/admin/webhooks_app/webhook/add/", {**FORM, "owner": str(acme.pk)})

    assert ">Acme</option>" in form
    assert "every account" not in form
    assert Webhook.objects.get().owner == acme


@pytest.mark.parametrize("model", ["webhook", "apikey"])
def test_staff_cannot_choose_another_organization(
    login: Callable[..., Client], acme: Any, globex: Any, model: str
) -> None:
    client = login("berta@example.com", acme)
    form = {**FORM, "scopes": ["events:read"], "owner": str(globex.pk)}

    client.post(f"/admin/webhooks_app/{model}/add/", form)

    assert not globex.webhooks.exists()
    assert not globex.webhook_api_keys.exists()


@pytest.mark.parametrize("model", ["webhook", "apikey"])
def test_staff_without_an_organization_cannot_add_webhooks(login: Callable[..., Client], model: str) -> None:
    client = login("berta@example.com")

    assert client.get(f"/admin/webhooks_app/{model}/add/").status_code == 403


def test_a_superuser_names_the_organization(login: Callable[..., Client], acme: Any) -> None:
    client = login("root@example.com", is_superuser=True)

    form = page(client, "webhook/add")
    client.post("/admin/webhooks_app/webhook/add/", {**FORM, "audience": "one", "owner": "Acme"})

    assert '<option value="Acme">' in form
    assert Webhook.objects.get().owner == acme
    assert "Acme" in page(client, f"webhook/{Webhook.objects.get().pk}/change")


def test_an_ambiguous_name_is_refused_with_the_keys(login: Callable[..., Client], acme: Any) -> None:
    client = login("root@example.com", is_superuser=True)
    other = type(acme).objects.create(name="Acme")

    answer = client.post("/admin/webhooks_app/webhook/add/", {**FORM, "audience": "one", "owner": "Acme"})

    assert "Several accounts are named" in answer.content.decode()
    assert str(other.pk) in answer.content.decode()
    assert not Webhook.objects.exists()


def test_a_key_made_by_staff_names_its_creator(login: Callable[..., Client], acme: Any) -> None:
    client = login("berta@example.com", acme)

    client.post("/admin/webhooks_app/apikey/add/", {"name": "ci", "scopes": ["events:read"]})

    api_key = ApiKey.objects.get()
    assert api_key.owner == acme
    assert api_key.created_by.email == "berta@example.com"


def test_the_overview_and_the_operations_page_open(
    login: Callable[..., Client], rows: dict[str, Webhook], acme: Any
) -> None:
    for client in (login("berta@example.com", acme), login("root@example.com", is_superuser=True)):
        assert client.get("/admin/webhooks_app/").status_code == 200
    assert "WEBHOOKS_OWNER_MODEL" in page(client, "operations")


def test_an_organization_is_deleted_with_its_webhooks(rows: dict[str, Webhook], acme: Any) -> None:
    acme.delete()

    assert [webhook.pk for webhook in Webhook.objects.all()] == [rows["Globex"].pk]
