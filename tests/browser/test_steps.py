"""Tasks of an operator, from the overview to their result, in a limited number of clicks and typed fields."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, expect

from webhooks_app.models import Delivery, Replay, Webhook, WebhookHealth

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from .conftest import SECRET, Login, Receiver
from .operator import at_the_console
from .test_journeys import INDEX, VERIFIED

pytestmark = pytest.mark.only_on("sqlite")


@pytest.fixture
def failing(amina: Any) -> Webhook:
    """A webhook with three events given up and one pending. Its URL refuses connections."""
    webhook = make_webhook(amina, EVENT_TYPE, url="http://127.0.0.1:9999/old", secret=SECRET)
    began = timezone.now() - timedelta(hours=2)
    Webhook.objects.update(created_at=began - timedelta(days=8))
    given_up = [emit_one(amina, f"missed {number}").deliveries.get() for number in range(3)]
    for delivery in given_up:
        delivery.queue_entry.delete()
    missed = {"state": Delivery.State.GIVEN_UP, "finished_at": timezone.now(), "last_result": "connection_error"}
    Delivery.objects.update(**missed)
    WebhookHealth.objects.create(
        webhook=webhook,
        failing_since=began,
        last_given_up_at=timezone.now(),
        given_up_count=3,
        missed_from=began,
    )
    return webhook


def test_a_failing_webhook_is_repaired_and_all_its_events_arrive(
    browser: Browser,
    login: Login,
    amina: Any,
    failing: Webhook,
    worker: None,
    receiver: Receiver,
) -> None:
    emit_one(amina, "pending")
    with at_the_console(browser, login) as operator:
        operator.opens(INDEX)
        operator.clicks(operator.tab.get_by_role("rowheader", name=failing.url).get_by_role("link").first)
        operator.follows("Settings")
        operator.types("URL", f"{receiver.url}hook")
        operator.confirms("Save")
        operator.sees(VERIFIED)
        operator.sees("3 events were missed.")
        operator.follows("Send the missed events")
        operator.confirms("Send missed events")
        for error in ("pending", "missed 0", "missed 1", "missed 2"):
            receiver.gets(EVENT_TYPE, "/hook", error=error)
        operator.sees("Done: all events found are queued.")

    assert operator.steps <= 6
    assert len(receiver.got("/hook")) == 4


def test_a_webhook_is_added_rotated_and_tested_with_the_answer_in_place(
    browser: Browser,
    login: Login,
    worker: None,
    receiver: Receiver,
) -> None:
    receiver.may_answer.clear()
    receiver.secrets = ()
    with at_the_console(browser, login) as operator:
        operator.opens(INDEX)
        operator.clicks(operator.to_add("Webhooks"))
        operator.types("URL", f"{receiver.url}hook")
        operator.clicks(operator.tab.get_by_role("group", name="File").get_by_label("all of this group"))
        operator.confirms("Save")
        receiver.secrets = (operator.reads_the_secret(),)
        receiver.may_answer.set()
        operator.sees(VERIFIED)
        operator.follows("Rotate the secret")
        operator.confirms("Rotate the secret")
        receiver.secrets = (*receiver.secrets, operator.reads_the_secret())
        operator.follows("Send a test event")
        operator.confirms("Send a test event")
        operator.sees("Answered with status 200, which confirms receipt.")
        expect(operator.field("Response header")).to_contain_text("Status 200")
        expect(operator.tab.get_by_role("definition").filter(has_text="ms").first).to_be_visible()

    assert operator.steps <= 9


def test_a_week_is_replayed_and_stopped(
    browser: Browser,
    login: Login,
    failing: Webhook,
    receiver: Receiver,
) -> None:
    since = (timezone.localtime() - timedelta(days=7)).strftime("%Y-%m-%dT%H:%M:%S")
    with at_the_console(browser, login) as operator:
        operator.opens(INDEX)
        operator.clicks(operator.tab.get_by_role("rowheader", name=failing.url).get_by_role("link").first)
        operator.follows("Replay missed events")
        operator.tab.get_by_label("From").fill(since)
        operator.steps += 1
        operator.confirms("Preview")
        operator.sees("3 events would be sent.")
        operator.confirms("Start")
        operator.sees("Running: 0 of 3 queued.")
        operator.does("Cancel the replay")
        operator.sees("Cancelled: 0 of 3 were queued.")

    assert operator.steps <= 7
    assert Replay.objects.get().state == Replay.State.CANCELLED
