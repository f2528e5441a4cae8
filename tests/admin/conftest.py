"""Fixtures of the console: users with permissions, and rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from webhooks_app.emission import emit
from webhooks_app.models import Delivery, Event, Webhook

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "<script>alert(1)</script>.pdf"}
SECRET = "a shared secret of the tests"


class Page:
    """The admin's pages for one user."""

    def __init__(self, user: Any) -> None:
        self.user = user
        self.client = Client()
        self.client.force_login(user)

    def get(self, model: str, page: str = "changelist", *args: str, **query: str) -> Any:
        return self.client.get(_url(model, page, *args), query, follow=True)

    def post(self, model: str, page: str, *args: str, **form: Any) -> Any:
        return self.client.post(_url(model, page, *args), form, follow=True)

    def settings_of(self, webhook: Webhook) -> Any:
        """Return the section of a webhook's page with its form."""
        return self.get("webhook", "change", webhook.pk, section="settings")

    def act(self, action: str, *items: Any, confirmed: bool = False, **form: Any) -> Any:
        """Run an action on rows from their list."""
        extra = {"confirmed": "yes"} if confirmed else {"index": "0"}
        selected = [item.pk for item in items]
        model = items[0]._meta.model_name
        return self.post(model, "changelist", action=action, _selected_action=selected, **extra, **form)


def _url(model: str, page: str, *args: str) -> str:
    return reverse(f"admin:webhooks_app_{model}_{page}", args=args)


def text(response: Any) -> str:
    """Return a page without the break opportunities of URLs."""
    assert response.status_code == 200, response
    return str(response.content.decode()).replace("<wbr>", "")


def shown_messages(response: Any) -> list[str]:
    """Return the messages on a page."""
    return [str(message) for message in response.context["messages"]]


def shows(response: Any, words: str) -> bool:
    return escape(words) in text(response)


@pytest.fixture
def superuser(db: None) -> Page:
    return Page(get_user_model().objects.create_superuser("root"))


@pytest.fixture
def staff(db: None) -> Callable[..., Page]:
    """Create a user with these permissions of the app."""

    def staff(name: str, *codenames: str) -> Page:
        user = get_user_model().objects.create_user(name, is_staff=True)
        permissions = Permission.objects.filter(content_type__app_label="webhooks_app", codename__in=codenames)
        assert permissions.count() == len(codenames)
        user.user_permissions.set(permissions)
        return Page(user)

    return staff


@pytest.fixture
def owner(db: None) -> Any:
    return get_user_model().objects.create_user("amina")


@pytest.fixture
def new_webhook(db: None) -> Callable[..., Webhook]:
    def new_webhook(owner: Any, **fields: Any) -> Webhook:
        values = {"url": "https://receiver.example.com/hooks", "event_types": ["file.deleted"], **fields}
        webhook = Webhook(owner=owner, secret=SECRET, **values)
        webhook.status = Webhook.Status.ACTIVE
        webhook.save()
        return webhook

    return new_webhook


@pytest.fixture
def webhook(new_webhook: Callable[..., Webhook], owner: Any) -> Webhook:
    return new_webhook(owner)


@pytest.fixture
def delivery(webhook: Webhook) -> Delivery:
    emit("file.deleted", DATA, owner=webhook.owner)
    return Delivery.objects.get()


@pytest.fixture
def event(delivery: Delivery) -> Event:
    assert delivery.event is not None
    return delivery.event
