"""Pictures for the guide on customers' pages, taken while a customer uses them: ``make pictures``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, expect

from webhooks_app import emit, registry
from webhooks_app.models import Delivery, Webhook, WebhookHealth
from webhooks_app.operations.registration import register_webhook
from webhooks_app.portal import portal_url
from webhooks_app.receiver.local import Answers, LocalReceiver

from ..support.waiting import wait_until
from .conftest import SECRET, Login, new_session
from .inspection import looking
from .pictures import DIRECTORY, LOOK, save

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(300)]

CUSTOMERS = DIRECTORY / "customers"
HEIGHTS = {
    "overview": 570,
    "new-webhook": 960,
    "secret": 495,
    "webhook": 1000,
    "event": 910,
    "log": 900,
    "delivery": 1100,
    "replay": 500,
    "event-type": 1100,
    "link": 240,
}
"""The pictures in the order of the guide, with the height at which each is cropped."""

EXAMPLE = registry.get("ppt.generation.completed").example
TYPES = ["ppt.generation.completed", "ppt.generation.failed"]


@pytest.fixture
def failing() -> Iterator[LocalReceiver]:
    with LocalReceiver(secrets=[SECRET]) as receiver:
        yield receiver


@pytest.fixture
def working() -> Iterator[LocalReceiver]:
    with LocalReceiver() as receiver:
        yield receiver


@pytest.mark.usefixtures("worker")
def test_every_page_of_the_guide_has_its_picture_taken(
    browser: Browser, live_server: Any, failing: LocalReceiver, working: LocalReceiver
) -> None:
    alice = get_user_model().objects.create_user("alice")
    account = f"/webhooks/{alice.pk}/"
    broken = register_webhook(
        owner=alice, url=f"{failing.url}webhooks", event_types=TYPES, description="Accounting", secret=SECRET
    )
    CUSTOMERS.mkdir(parents=True, exist_ok=True)
    for old in CUSTOMERS.glob("*.png"):
        old.unlink()

    with looking(browser, Login(address=live_server.url, session=new_session(alice)), LOOK) as (tab, problems):

        def take(name: str, path: str = "") -> None:
            if path:
                tab.goto(live_server.url + path)
            save(tab.screenshot(full_page=True), CUSTOMERS / f"{name}.png", HEIGHTS[name])

        tab.goto(f"{live_server.url}{account}webhooks/new/")
        tab.get_by_role("textbox", name="URL").fill(f"{working.url}webhooks")
        tab.get_by_role("group", name="PPT generation").get_by_label("all of this group").check()
        tab.get_by_role("textbox", name="Description").fill("Rendering farm")
        take("new-webhook")
        tab.get_by_role("button", name="Create", exact=True).click()
        expect(tab.get_by_text("Verified: the URL returned the challenge.")).to_be_visible()
        take("secret")
        wait_until(lambda: Webhook.objects.filter(status="active").count() == 2)

        working.answers, failing.answers = Answers(statuses=(503, 200)), Answers(statuses=(500,))
        event = emit("ppt.generation.completed", EXAMPLE, owner=alice)
        lost = Delivery.objects.filter(webhook=broken, kind="event", state="given_up")
        wait_until(lost.exists, timeout_seconds=90)
        wait_until(lambda: WebhookHealth.objects.filter(webhook=broken, given_up_since__isnull=False).exists())
        retried = event.deliveries.exclude(webhook=broken).get()
        take("overview", account)
        take("webhook", f"{account}webhooks/{broken.pk}/")
        take("event", f"{account}events/{event.pk}/")
        tab.goto(f"{live_server.url}{account}deliveries/#{retried.pk}")
        expect(tab.get_by_role("heading", name="Attempt 2")).to_be_visible()
        take("log")
        take("delivery", f"{account}deliveries/{retried.pk}/")
        take("event-type", f"{account}event-types/ppt.generation.completed/")
        tab.goto(f"{live_server.url}{account}webhooks/{broken.pk}/recover/")
        tab.get_by_role("button", name="Count them").click()
        expect(tab.get_by_role("button", name="Start")).to_be_visible()
        take("replay")
        take("link", portal_url(alice, rights=("read", "manage")))
        assert problems == []
