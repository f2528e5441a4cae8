"""Tasks of an operator, from the overview to their result, in a limited number of clicks and typed fields."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone
from playwright.sync_api import Browser, expect

from tests.maintenance.rollups.conftest import make_tally
from webhooks_app import emit
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.recent import pack, sum_up
from webhooks_app.models import Delivery, DeliveryAttempt, Event, Replay, Webhook, WebhookHealth
from webhooks_app.operations.actors import StaffMember
from webhooks_app.operations.lifecycle import disable

from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, make_problem, make_webhook
from .conftest import SECRET, Console, Login, Receiver
from .operator import Operator, at_the_console
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
        given_up_since=began,
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
        operator.follows("Change the URL")
        operator.types("URL", f"{receiver.url}hook")
        operator.confirms("Save")
        operator.sees(VERIFIED)
        operator.sees("3 events were missed.")
        operator.confirms("Send the missed events")
        for error in ("pending", "missed 0", "missed 1", "missed 2"):
            receiver.gets(EVENT_TYPE, "/hook", error=error)
        operator.sees("Done:")

    assert operator.steps <= 4
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
        operator.follows("Replay events")
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


# Finding

PPT = "ppt_8f14e45f"


@pytest.fixture
def complained_about(amina: Any) -> Event:
    """An event of the last minutes that its webhook refused four times with status 500."""
    webhook = make_webhook(amina, EVENT_TYPE, url="https://refusing.example.com/hook")
    fine = make_webhook(amina, EVENT_TYPE, url="https://fine.example.com/hook")
    event = emit(EVENT_TYPE, {"error": "No outline", "ppt_id": PPT}, owner=amina)
    end_deliveries(state=Delivery.State.SUCCEEDED, finished_at=timezone.now(), attempt_count=1)
    refused = Delivery.objects.filter(webhook=webhook)
    end_deliveries(refused, state=Delivery.State.GIVEN_UP, last_result="http_status", attempt_count=1)
    facts = {"url": webhook.url, "result": "http_status", "response_status": 500, "duration_ms": 40}
    DeliveryAttempt.objects.create(delivery=refused.get(), number=1, started_at=timezone.now(), **facts)
    failed = {"given_up": 25, "failed_http_status": 25, "ms_100": 25, "ms_sum": 2500}
    slow = {"succeeded_at_once": 25, "ms_5000": 25, "ms_sum": 100_000}
    make_tally(timezone.now(), **{webhook.pk: failed, fine.pk: slow})
    fold(DEFAULT_DB_ALIAS)
    both = [webhook.pk, fine.pk]
    pack(DEFAULT_DB_ALIAS, 0, both, sum_up(DEFAULT_DB_ALIAS, both, timezone.now()))
    make_problem(webhook, 500)
    return event


def starts(operator: Operator) -> None:
    operator.opens(INDEX)
    operator.steps = 0


def searches(operator: Operator, text: str) -> None:
    operator.tab.get_by_label("Search everything").fill(text)
    operator.steps += 1
    operator.clicks(operator.tab.get_by_role("search").get_by_role("button", name="Search"))


def test_why_an_event_did_not_arrive_is_found_by_its_id_or_its_reference(
    browser: Browser, empty_console: Console, complained_about: Event
) -> None:
    with at_the_console(browser, empty_console) as operator:
        for known in (complained_about.pk, PPT):
            starts(operator)
            searches(operator, known)
            operator.sees("Routing")
            assert operator.steps <= 2
            operator.clicks(operator.row("refusing.example.com").get_by_role("link").first)
            operator.sees("so the delivery was given up")
            operator.sees("Status 500")

            assert operator.steps <= 3


def test_a_complaint_about_an_hour_leads_to_the_deliveries_that_failed_in_it(
    browser: Browser, empty_console: Console, complained_about: Event
) -> None:
    with at_the_console(browser, empty_console) as operator:
        starts(operator)
        operator.clicks(operator.tab.get_by_role("link", name="25 delivered, 25 given up"))
        operator.follows("5xx")
        expect(operator.row("refusing.example.com").first).to_be_visible()
        expect(operator.row("fine.example.com")).to_have_count(0)
        operator.sees("500")

        assert operator.steps <= 2


def test_the_worst_and_the_slowest_receiver_and_the_accounts_that_were_hit_are_found(
    browser: Browser, empty_console: Console, complained_about: Event
) -> None:
    with at_the_console(browser, empty_console) as operator:
        starts(operator)
        operator.follows("Receivers: every webhook with its failed requests, response times and queue")
        expect(operator.tab.locator("#content-main tbody th").first).to_contain_text("refusing.example.com")
        assert operator.steps <= 2
        operator.follows("95th percentile (ms)")
        expect(operator.tab.locator("#content-main tbody th").first).to_contain_text("fine.example.com")
        assert operator.steps <= 2

        starts(operator)
        operator.follows("Impact: the accounts that failures have hit in the last hour")
        expect(operator.row("amina")).to_contain_text("refusing.example.com")
        assert operator.steps <= 3


def test_who_disabled_a_webhook_and_why_is_found(
    browser: Browser, empty_console: Console, complained_about: Event
) -> None:
    webhook = Webhook.objects.get(url__contains="refusing")
    disable(webhook, actor=StaffMember(account=empty_console.superuser), reason="Answers with errors since noon")

    with at_the_console(browser, empty_console) as operator:
        starts(operator)
        searches(operator, "refusing.example")
        operator.sees("Answers with errors since noon")
        operator.follows("History")
        expect(operator.row("webhook disabled")).to_contain_text("root, console")

        assert operator.steps <= 3
