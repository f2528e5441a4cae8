"""A customer gets from an empty account to a tested webhook, and recovers what a failing one missed, by clicking."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser

from webhooks_app.models import Delivery, Webhook

from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook
from .conftest import SECRET, Login, Receiver, new_session
from .operator import at_the_console
from .test_journeys import VERIFIED

pytestmark = pytest.mark.only_on("sqlite")


@pytest.mark.usefixtures("worker")
def test_a_customer_creates_tests_and_recovers(browser: Browser, live_server: object, receiver: Receiver) -> None:
    account = get_user_model().objects.create_user("amina")
    failing = make_webhook(account, EVENT_TYPE, url=f"{receiver.url}old", secret=SECRET)
    missed = emit_one(account, error="missed")
    end_deliveries(Delivery.objects.filter(event=missed), state="given_up", attempt_count=4)
    login = Login(address=live_server.url, session=new_session(account))  # type: ignore[attr-defined]

    with at_the_console(browser, login) as customer:
        customer.opens("/webhooks/")
        customer.follows("New webhook")
        customer.field("URL").fill(f"{receiver.url}new")
        customer.tab.get_by_role("group", name="File").get_by_label("all of this group").check()
        customer.field("Secret").fill(SECRET)
        customer.confirms("Create")
        customer.sees("Copy it now. It is not shown again.")
        customer.sees(VERIFIED)
        customer.follows("Continue to the webhook")
        customer.follows("Send a test event")
        customer.confirms("Send")
        customer.sees("Answered with status 200, which confirms receipt.")

        customer.opens(f"/webhooks/{account.pk}/webhooks/{failing.pk}/")
        customer.follows("Recover missed events")
        customer.confirms("Count them")
        customer.sees("1 event would be sent.")
        customer.confirms("Send them")
        customer.sees("Done: all events found are queued.")

    receiver.gets(EVENT_TYPE, "/old", error="missed")
    assert Webhook.objects.filter(owner=account, status="active").count() == 2
