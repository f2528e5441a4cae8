"""Journeys of an operator through the console, with their effects at the receiver."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from django.urls import reverse_lazy
from playwright.sync_api import Browser, expect

from webhooks_app.models import Webhook
from webhooks_app.signatures import PREVIOUS_SIGNATURE_HEADER

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from .conftest import ARRIVES_WITHIN_SECONDS, SECRET, Login, Receiver, make_staff, new_session
from .operator import Operator, at_the_console
from .test_pages import url

pytestmark = pytest.mark.only_on("sqlite")

INDEX = reverse_lazy("admin:app_list", args=["webhooks_app"])
VERIFIED = "Verified: the URL returned the challenge."
OPERATIONS = "Operations: problems, workers, retention and settings"

WHY = {
    "hook": "It was disabled.",
    "other": "It was active, and subscribed to the type.",
    "users": "It was not subscribed to the type.",
}
"""Routing decisions by path."""


def sends_a_test(operator: Operator, event_type: str, **data: Any) -> None:
    operator.follows("Send a test event")
    operator.field("Event type").select_option(event_type)
    operator.field("Data").fill(json.dumps(data))
    operator.confirms("Send a test event")
    operator.sees(f"Sent a test event of type {event_type}.")


def asks_the_api(login: Login, key: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return requests.get(f"{login.address}/v1/webhooks", headers=headers, timeout=ARRIVES_WITHIN_SECONDS)


def test_a_webhook_is_added_verified_and_tested(
    browser: Browser, login: Login, worker: None, receiver: Receiver
) -> None:
    receiver.may_answer.clear()
    receiver.secrets = ()
    with at_the_console(browser, login) as operator:
        operator.opens(INDEX)
        operator.to_add("Webhooks").click()
        operator.field("URL").press_sequentially("http://10.0.0.1/hook")
        operator.sees("The address 10.0.0.1 may not be used (a private network).")
        operator.field("URL").fill(f"{receiver.url}hook")
        operator.sees("This URL is allowed.")
        operator.tab.get_by_role("group", name="File").get_by_label("all of this group").check()
        operator.confirms("Save")

        secret = operator.reads_the_secret()
        receiver.secrets = (secret,)
        operator.sees("Verification in progress")
        receiver.may_answer.set()
        operator.sees(VERIFIED)
        operator.tab.get_by_text("Requests and responses").click()
        expect(operator.field("Response header")).to_contain_text("Status 200")

        operator.follows(str(Webhook.objects.get()))
        operator.follows("Settings")
        operator.opens_section("Security")
        operator.sees("Stored encrypted; rotate to get a new one.")
        assert secret not in operator.tab.content()
        operator.opens_section("What")
        expect(operator.tab.get_by_role("checkbox", name="file.", checked=True)).to_have_count(3)
        sends_a_test(operator, "file.deleted", file_id="file_1", user_id="user_7", filename="draft.pdf")
        receiver.gets("file.deleted", "/hook", file_id="file_1", user_id="user_7", filename="draft.pdf")

        operator.sees("Answered with status 200, which confirms receipt.")
        expect(operator.field("Request body")).to_contain_text("draft.pdf")
        expect(operator.field("Response header")).to_contain_text("Status 200")
        operator.tab.get_by_text("curl", exact=True).click()
        expect(operator.field("Command")).to_contain_text(f"curl --include --globoff {receiver.url}hook")


def test_held_and_missed_events_arrive_on_request(
    browser: Browser, login: Login, amina: Any, webhook: Webhook, worker: None, receiver: Receiver
) -> None:
    make_webhook(amina, EVENT_TYPE, url=f"{receiver.url}other", secret=SECRET)
    make_webhook(amina, "user.registered", url=f"{receiver.url}users", secret=SECRET)
    with at_the_console(browser, login) as operator:
        operator.opens(url("webhook_change", webhook.pk))
        operator.does("Pause")
        operator.sees("Paused the webhook.")
        emit_one(amina, "held")
        receiver.gets(EVENT_TYPE, "/other", error="held")
        assert receiver.got("/hook") == []
        operator.does("Resume")
        receiver.gets(EVENT_TYPE, "/hook", error="held")

        operator.does("Disable")
        operator.sees("Disabled by its account.")
        missed = emit_one(amina, "missed")
        receiver.gets(EVENT_TYPE, "/other", error="missed")
        operator.opens(url("event_change", missed.pk))
        decisions = operator.tab.get_by_role("region", name="Routing")
        for path, reason in WHY.items():
            row = decisions.get_by_role("row").filter(has_text=f"{receiver.url}{path}")
            expect(row).to_contain_text(reason)

        operator.tab.get_by_role("rowheader", name=webhook.url).get_by_role("link").click()
        operator.follows("Settings")
        operator.opens_section("Where")
        operator.field("URL").fill(f"{receiver.url}repaired")
        operator.confirms("Save")
        operator.sees("was changed successfully.")
        operator.opens(url("webhook_change", webhook.pk))
        operator.does("Enable")
        operator.sees(VERIFIED)
        operator.sees("1 event was missed.")
        operator.confirms("Send the missed event")
        receiver.gets(EVENT_TYPE, "/repaired", error="missed")
        operator.sees("Done:")
        operator.sees("Answered with status 200, which confirms receipt.")
        operator.follows("Refresh")
        operator.sees("Done:")


def test_a_delivery_held_by_the_order_leads_to_the_one_before_it(
    browser: Browser, login: Login, amina: Any, webhook: Webhook, worker: None, receiver: Receiver
) -> None:
    with at_the_console(browser, login) as operator:
        operator.opens(url("webhook_change", webhook.pk, query="?section=settings"))
        operator.opens_section("How")
        operator.tab.get_by_role("combobox", name="Order").select_option("webhook")
        operator.confirms("Save")
        operator.sees("was changed successfully")
        receiver.may_answer.clear()
        first, second = (emit_one(amina, number).deliveries.get() for number in ("first", "second"))
        receiver.gets(EVENT_TYPE, "/hook", error="first")

        operator.opens(url("delivery_change", second.pk))
        operator.sees("Waiting for an earlier delivery")
        operator.tab.get_by_role("main").get_by_role("link", name=first.pk).first.click()
        expect(operator.tab).to_have_url(f"{login.address}{url('delivery_change', first.pk)}")
        operator.sees("In flight.")

        receiver.may_answer.set()
        receiver.gets(EVENT_TYPE, "/hook", error="second")
        operator.opens(url("delivery_change", second.pk))
        operator.reloads_until("Answered with status 200, which confirms receipt.")
    assert receiver.got("/hook") == [first.event_id, second.event_id]


def test_a_leaked_secret_and_a_key_are_revoked(
    browser: Browser, login: Login, amina: Any, webhook: Webhook, worker: None, receiver: Receiver
) -> None:
    with at_the_console(browser, login) as operator:
        operator.opens(url("webhook_change", webhook.pk))
        operator.follows("Rotate the secret")
        operator.field("Overlap in hours").fill("0")
        operator.confirms("Rotate the secret")
        receiver.secrets = (operator.reads_the_secret(),)
        emit_one(amina, "after the leak")
        request = receiver.gets(EVENT_TYPE, "/hook", error="after the leak")
        assert PREVIOUS_SIGNATURE_HEADER not in dict(request.headers)

        operator.opens(INDEX)
        operator.to_add("API keys").click()
        operator.field("Name").fill("Continuous integration")
        operator.tab.check("[name=scopes][value='webhooks:read']")
        operator.confirms("Save")
        key = operator.reads_the_secret()
        assert asks_the_api(login, key).json()["results"][0]["id"] == webhook.pk

        operator.tab.get_by_role("main").get_by_role("link", name="API keys").click()
        operator.row("Continuous integration").get_by_role("link").click()
        operator.does("Revoke")
        operator.sees("Revoked the key.")
        assert asks_the_api(login, key).status_code == 401


def test_the_console_works_without_javascript(
    browser: Browser, login: Login, amina: Any, worker: None, receiver: Receiver
) -> None:
    with at_the_console(browser, login, with_javascript=False) as operator:
        operator.opens(INDEX)
        operator.to_add("Webhooks").click()
        operator.field("URL").fill(f"{receiver.url}hook")
        operator.field(EVENT_TYPE).check()
        operator.tab.get_by_role("textbox", name="Secret").fill(SECRET)
        operator.confirms("Save")
        operator.follows(str(Webhook.objects.get()))
        operator.follows("Verification")
        operator.reloads_until(VERIFIED)

        sends_a_test(operator, EVENT_TYPE, error="a test")
        first = receiver.gets(EVENT_TYPE, "/hook", error="a test")
        operator.reloads_until("Answered with status 200, which confirms receipt.")
        operator.does("Redeliver")
        operator.sees("Redelivered the event.")
        receiver.wait_until(lambda received: receiver.got("/hook") == [first.event_id] * 2, ARRIVES_WITHIN_SECONDS)
        assert receiver.got("/hook") == [first.event_id] * 2

        operator.opens(url("webhook_change", Webhook.objects.get().pk))
        operator.does("Pause")
        operator.sees("Paused the webhook.")
        held = emit_one(amina)
        operator.tab.reload()
        operator.row(EVENT_TYPE).first.get_by_role("link").click()
        operator.sees("Paused since")
        operator.opens(url("webhook_change", Webhook.objects.get().pk))
        operator.does("Resume")
        receiver.gets(EVENT_TYPE, "/hook", error="No outline")
        assert receiver.got("/hook")[-1] == held.pk


def test_a_webhook_is_added_by_keyboard_alone(browser: Browser, login: Login, receiver: Receiver) -> None:
    with at_the_console(browser, login) as operator:
        operator.opens(INDEX)
        operator.tabs_to(operator.to_add("Webhooks"))
        operator.presses_enter()
        expect(operator.field("URL")).to_be_focused()
        operator.tab.keyboard.type(f"{receiver.url}hook")
        operator.tabs_to(operator.field("all of this group").first)
        operator.tab.keyboard.press("Space")
        operator.tabs_to(operator.tab.get_by_role("button", name="Save", exact=True))
        operator.presses_enter()
        operator.reads_the_secret()

    assert len(Webhook.objects.get().event_types) > 1


def test_staff_see_their_own_rows_and_permitted_actions(
    browser: Browser, login: Login, webhook: Webhook, amina: Any
) -> None:
    berta = make_staff("berta", may="view_")
    own = make_webhook(berta, EVENT_TYPE, url="https://berta.example.com/hook")
    with at_the_console(browser, login) as operator:
        operator.opens(INDEX)
        operator.is_offered_none_of(OPERATIONS)
        operator.opens(url("webhook_changelist"))
        operator.sees(webhook.url)
        operator.is_offered_none_of(own.url)

    with at_the_console(browser, Login(address=login.address, session=new_session(berta))) as operator:
        operator.opens(url("webhook_changelist"))
        operator.is_offered_none_of(webhook.url)
        operator.follows(own.url)
        operator.sees("No deliveries yet.")
        operator.is_offered_none_of("Pause", "Send a test event", "Rotate the secret")
        expect(operator.tab.get_by_role("main").get_by_role("button")).to_have_count(3)  # search, and two to copy
