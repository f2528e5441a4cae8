"""A customer gets to a tested webhook by the keyboard alone, and repairs a failing one, in a few steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from playwright.sync_api import Browser

from webhooks_app.models import Delivery, DeliveryAttempt, Webhook, WebhookHealth

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from .conftest import SECRET, Login, Receiver, new_session
from .operator import at_the_console
from .test_journeys import VERIFIED

pytestmark = pytest.mark.only_on("sqlite")

SIGN_UP = 5
"""Steps of the sign-up, which is the host's: the link, two or three fields, and the button."""


def make_failing(account: Any) -> Webhook:
    """Create a webhook whose URL refuses connections, with an event that it missed."""
    event, began = emit_one(account, error="missed"), timezone.now() - timedelta(hours=1)
    webhook = make_webhook(account, EVENT_TYPE, url="http://127.0.0.1:9999/old", secret=SECRET)
    Webhook.objects.filter(pk=webhook.pk).update(created_at=began)
    failed = {"webhook": webhook, "event": event, "state": "given_up", "last_result": "connection_error"}
    delivery = Delivery.objects.create(**failed, attempt_count=1, finished_at=timezone.now())
    attempt = {"url": webhook.url, "result": "connection_error", "message": "Connection refused"}
    DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=timezone.now(), **attempt)
    WebhookHealth.objects.create(
        webhook=webhook, failing_since=began, last_given_up_at=timezone.now(), given_up_count=1, missed_from=began
    )
    return webhook


@pytest.mark.usefixtures("worker")
def test_a_customer_creates_tests_repairs_and_recovers(browser: Browser, live_server: Any, receiver: Receiver) -> None:
    account = get_user_model().objects.create_user("amina")
    login = Login(address=live_server.url, session=new_session(account))
    receiver.may_answer.clear()
    receiver.secrets = ()

    with at_the_console(browser, login) as customer:
        tab = customer.tab
        customer.opens("/webhooks/")
        customer.presses("Enter", customer.link("New webhook"))
        customer.tabs_to(customer.field("URL"))
        tab.keyboard.type(f"{receiver.url}new")
        customer.steps += 1
        customer.presses("Space", tab.get_by_role("group", name="File").get_by_label("all of this group"))
        customer.presses("Enter", tab.get_by_role("button", name="Create", exact=True))
        receiver.secrets = (customer.reads_the_secret(), SECRET)
        receiver.may_answer.set()
        customer.sees(VERIFIED)
        customer.presses("Enter", customer.link("Continue to the webhook"))
        customer.presses("Enter", customer.link("Send a test event"))
        customer.presses("Enter", tab.get_by_role("button", name="Send", exact=True))
        customer.sees("Answered with status 200, which confirms receipt.")
        assert customer.steps + SIGN_UP <= 14

        failing, customer.steps = make_failing(account), 0
        customer.opens("/webhooks/")
        customer.sees("1 webhook needs attention.")
        customer.clicks(tab.get_by_role("link", name=failing.url).first)
        customer.sees("Last failure: Connection refused")
        customer.follows("Settings")
        customer.types("URL", f"{receiver.url}repaired")
        customer.confirms("Save")
        customer.sees(VERIFIED)
        customer.follows("Recover missed events")
        customer.confirms("Count them")
        customer.sees("1 event would be sent.")
        customer.confirms("Send them")
        customer.sees("Done: all events found are queued.")
        assert customer.steps <= 8

    receiver.gets(EVENT_TYPE, "/repaired", error="missed")
    assert Webhook.objects.filter(owner=account, status="active").count() == 2
