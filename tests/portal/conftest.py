"""Fixtures of the customers' pages: two accounts with rows, and owner policies with roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from webhooks_app.models import ApiKey, Delivery, DeliveryAttempt, Event, Replay, Webhook
from webhooks_app.owners import Access, UserOwners

from ..support.rows import emit_one, end_deliveries, make_webhook, plan_replay


class ReadOnlyOwners(UserOwners):
    def access(self, user: Any, owners: Any) -> Any:
        return {owner.pk: Access.READ for owner in owners}


class ManagingOwners(UserOwners):
    """Users may change everything, but not see new secrets."""

    def access(self, user: Any, owners: Any) -> Any:
        return {owner.pk: Access.READ | Access.MANAGE for owner in owners}


class WithoutFailures(UserOwners):
    """Users do not see failed generations."""

    def sees(self, owner: Any, event_type: Any) -> bool:
        return bool(event_type.name != "ppt.generation.failed")


class EveryOwner(UserOwners):
    """Every user may act for every account."""

    def visible_to(self, user: Any) -> Any:
        return get_user_model().objects.all()


class Nobodys(UserOwners):
    """No user sees any account."""

    def visible_to(self, user: Any) -> Any:
        return get_user_model().objects.none()


@dataclass(frozen=True, kw_only=True)
class Customer:
    """An account with one row of each kind, and a client with its session."""

    user: Any
    client: Client
    webhook: Webhook
    event: Event
    delivery: Delivery
    replay: Replay
    key: ApiKey

    def url(self, name: str, *args: str) -> str:
        return reverse(f"webhooks_portal:{name}", args=(str(self.user.pk), *args))

    def get(self, name: str, /, *args: str, **query: str) -> Any:
        return self.client.get(self.url(name, *args), query)

    def post(self, name: str, /, *args: str, follow: bool = True, **form: Any) -> Any:
        return self.client.post(self.url(name, *args), form, follow=follow)


def make_customer(name: str) -> Customer:
    user = get_user_model().objects.create_user(name)
    client = Client()
    client.force_login(user)
    webhook = make_webhook(user)
    event = emit_one(user, error="<script>alert(1)</script>")
    delivery = Delivery.objects.get(event=event)
    end_deliveries(Delivery.objects.filter(pk=delivery.pk), state="given_up", attempt_count=1)
    delivery.refresh_from_db()
    attempt = {"url": webhook.url, "started_at": delivery.created_at, "result": "http_status", "response_status": 503}
    DeliveryAttempt.objects.create(delivery=delivery, number=1, response_body="<b>down</b>", **attempt)
    key, _ = ApiKey.objects.make(owner=user, name="Import")
    replay = plan_replay(webhook, since=webhook.created_at)
    return Customer(user=user, client=client, webhook=webhook, event=event, delivery=delivery, replay=replay, key=key)


@pytest.fixture
def amina(db: None) -> Customer:
    return make_customer("amina")


@pytest.fixture
def boris(db: None) -> Customer:
    return make_customer("boris")
