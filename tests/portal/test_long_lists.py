"""The pages of accounts with many rows, and the number of their queries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from webhooks_app.maintenance.rollups.folding import start_of
from webhooks_app.models import Delivery, Event, Rollup, Webhook, WebhookHealth
from webhooks_app.models.rollup import id_of_account

from .conftest import Customer
from .test_webhooks import text

pytestmark = pytest.mark.django_db

MAX_QUERIES = 20
LISTS = ("overview", "webhooks", "deliveries", "events", "keys")


@pytest.fixture
def many(amina: Customer) -> Customer:
    """An account with 1,000 webhooks, their results of a day, 3,000 events and 12,000 deliveries."""
    made = Webhook.objects.bulk_create(
        [
            Webhook(owner=amina.user, url=f"https://{number}.example/", event_types=["file.deleted"], status="active")
            for number in range(1000)
        ],
        batch_size=500,
    )
    recent = {"day": {"finished": 5, "given_up": 1}}
    WebhookHealth.objects.bulk_create([WebhookHealth(webhook=each, recent=recent) for each in made], batch_size=500)
    hours = [start_of("hour", timezone.now()) - timedelta(hours=age) for age in range(24)]
    counted = [*(each.pk for each in made), id_of_account(amina.user.pk)]
    counts = {"succeeded_at_once": 4, "given_up": 1}
    rollups = [Rollup(webhook_id=pk, resolution="hour", start=hour, counts=counts) for pk in counted for hour in hours]
    Rollup.objects.bulk_create(rollups, batch_size=2000)
    event = {"type": "file.deleted", "owner": amina.user, "body": "", "created_at": amina.event.created_at}
    events = [Event(**event) for _ in range(3000)]
    Event.objects.bulk_create(events, batch_size=500)
    deliveries = [
        Delivery(webhook=webhook, event=events[number], state="succeeded") for number in range(12) for webhook in made
    ]
    Delivery.objects.bulk_create(deliveries, batch_size=2000)
    return amina


def widely_sent() -> str:
    """Return the ID of an event with 1,000 deliveries."""
    return str(Delivery.objects.latest("pk").event_id)


def queries_of(get: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert get().status_code == 200
    return [each["sql"] for each in captured]


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
def test_the_number_of_queries_does_not_depend_on_the_rows(many: Customer) -> None:
    found = {name: len(queries_of(partial(many.get, name))) for name in LISTS}
    found["event"] = len(queries_of(partial(many.get, "event", widely_sent())))

    assert {name: number for name, number in found.items() if number > MAX_QUERIES} == {}
    assert "80% of the deliveries of the last 24 hours succeeded." in many.get("overview").content.decode()


def test_the_oldest_of_many_webhooks_is_on_the_overview_when_it_fails(many: Customer, monkeypatch: Any) -> None:
    Webhook.objects.filter(pk=many.webhook.pk).update(status="failed")

    page = many.get("overview")
    monkeypatch.setattr("webhooks_app.pages.verdict.MAX_JUDGED", 1000)
    cut_short = many.get("overview")

    assert [row.webhook.pk for row in page.context["webhook_rows"] if row.standing.tone == "bad"] == [many.webhook.pk]
    assert (page.context["number"], "Only the newest" in text(page)) == (1001, False)
    assert cut_short.context["attention"] == 0
    assert "Only the newest 1000 webhooks are counted here." in text(cut_short)


def test_the_verdict_of_an_account_is_the_same_in_the_console(many: Customer) -> None:
    Webhook.objects.filter(pk=many.webhook.pk).update(status="failed")
    many.user.is_staff = True
    many.user.save()
    many.user.user_permissions.add(Permission.objects.get(codename="view_delivery"))

    console = many.client.get(reverse("admin:webhooks_app_webhook_overview"))

    verdict = many.get("overview").context["verdict"]
    assert str(verdict.state) == "Verification failed"
    assert console.context["overview"].verdict == verdict


def test_the_deliveries_of_all_and_of_any_webhook_can_be_listed(many: Customer) -> None:
    newest = Delivery.objects.filter(webhook__owner=many.user).order_by("-pk").values_list("pk", flat=True)[:50]

    of_all, of_oldest = many.get("deliveries"), many.get("deliveries", webhook_id=many.webhook.pk)

    assert [row.delivery.pk for row in of_all.context["rows"]] == list(newest)
    assert [row.delivery.pk for row in of_oldest.context["rows"]] == [many.delivery.pk]
