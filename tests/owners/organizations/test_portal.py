"""The customers' pages for members of organizations, whose keys are UUIDs."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.rows import make_webhook

pytestmark = pytest.mark.django_db

NEW = {"url": "http://127.0.0.1:9000/new", "event_types": ["file.deleted"]}


@pytest.fixture
def member(amina: Any) -> Client:
    client = Client()
    client.force_login(amina)
    return client


def test_a_member_manages_the_webhooks_of_the_organization(member: Client, acme: Any) -> None:
    shown = member.post(f"/webhooks/{acme.pk}/webhooks/new/", NEW, follow=True)

    webhook = acme.webhooks.get()
    assert webhook.secret in shown.content.decode()


def test_another_organization_looks_like_an_unknown_one(member: Client, acme: Any, globex: Any) -> None:
    webhook = make_webhook(globex)
    paths = [f"/webhooks/{globex.pk}/", f"/webhooks/{'0' * 32}/", f"/webhooks/{acme.pk}/webhooks/{webhook.pk}/"]

    assert [member.get(path).status_code for path in paths] == [404, 404, 404]


def test_a_member_of_two_chooses(member: Client, amina: Any, acme: Any, globex: Any) -> None:
    globex.members.add(amina)

    choice = member.get("/webhooks/").content.decode()
    switch = member.get(f"/webhooks/{acme.pk}/").content.decode()

    for page in (choice, switch):
        assert f"/webhooks/{globex.pk}/" in page


def test_a_user_without_an_organization_is_told_so(django_user_model: Any) -> None:
    client = Client()
    client.force_login(django_user_model.objects.create_user("nobody@example.com"))

    assert "You have no account whose webhooks you may see." in client.get("/webhooks/").content.decode()
