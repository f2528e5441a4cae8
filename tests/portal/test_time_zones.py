"""Times on the customers' pages are in the zone of the reader."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import timezone

from webhooks_app.models import Delivery, Webhook
from webhooks_app.portal.base import in_zone_of
from webhooks_app.protocol.ids import new_id

from .conftest import Customer
from .test_deliveries import listed
from .test_webhooks import text

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


def test_times_are_in_the_zone_of_the_browser(amina: Customer) -> None:
    Webhook.objects.update(created_at=NOON)
    before = text(amina.get("webhook", amina.webhook.pk))
    amina.client.cookies["webhooks_timezone"] = "Asia/Tokyo"

    after = text(amina.get("webhook", amina.webhook.pk))

    assert "2026-01-15 12:00:00" in before
    assert "Time zone: UTC" in before
    assert "2026-01-15 21:00:00" in after
    assert "Time zone: Asia/Tokyo" in after
    assert timezone.get_current_timezone_name() == "UTC"


def test_entered_times_are_in_the_zone_of_the_browser(amina: Customer) -> None:
    delivery = Delivery.objects.create(id=new_id("dlv", NOON), webhook=amina.webhook, event=amina.event)
    amina.client.cookies["webhooks_timezone"] = "Asia/Tokyo"

    found = listed(amina, created_after="2026-01-15T20:59", created_before="2026-01-15T21:01")

    assert found == [delivery.pk]


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "Europe", "x" * 500])
def test_a_zone_that_does_not_exist_is_ignored(amina: Customer, name: str) -> None:
    amina.client.cookies["webhooks_timezone"] = name

    assert "Time zone: UTC" in text(amina.get("overview"))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_the_zone_that_the_project_chose_remains(amina: Customer, settings: Any, zone: str) -> None:
    assert settings.TIME_ZONE == "UTC"
    amina.client.cookies["webhooks_timezone"] = "Asia/Tokyo"

    with timezone.override(zone):
        shown = text(amina.get("overview"))

    assert f"Time zone: {zone}" in shown


def test_a_zone_counts_as_chosen_until_django_deactivates_it(rf: RequestFactory) -> None:
    """The pages read a private variable of Django's, which must exist only while a zone is active."""
    request = rf.get("/", headers={"Cookie": "webhooks_timezone=Asia/Tokyo"})

    def zone() -> str:
        with in_zone_of(request):
            return timezone.get_current_timezone_name()

    found = [zone()]
    timezone.activate("UTC")
    found.append(zone())
    timezone.deactivate()
    found.append(zone())
    with timezone.override("Europe/Berlin"):
        found.append(zone())
    found.append(zone())

    assert found == ["Asia/Tokyo", "UTC", "Asia/Tokyo", "Europe/Berlin", "Asia/Tokyo"]
