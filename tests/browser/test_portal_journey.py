"""A new customer of the example service gets to a received event, and repairs a failing webhook, by clicking only."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from ..example_project.commands import running
from ..support.servers.process import free_port
from ..support.waiting import wait_until
from .conftest import EXPECT_MILLISECONDS
from .inspection import problems_in_each_look
from .operator import Operator
from .test_journeys import VERIFIED

pytestmark = [
    pytest.mark.only_on("sqlite"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("the example service"),
]

GIVEN_UP_WITHIN_SECONDS = 120
"""The last of four attempts is 36 seconds after the first. Then the worker updates the state of the webhook."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the example service, as ``make run`` starts it."""
    port, directory = free_port(), tmp_path_factory.mktemp("service")
    with running("example_project.run", VAR_DIR=str(directory), PORT=str(port)) as program:
        program.wait_for_line(lambda line: line.startswith("worker") and line.endswith("ready."), timeout=200)
        program.wait_for_line(lambda line: "Ctrl-C" in line)
        yield f"http://127.0.0.1:{port}"


def signs_up(customer: Operator, name: str) -> None:
    """Create an account of its own for this test, which another run on the same service does not have."""
    customer.opens("/webhooks/")
    customer.follows("Sign up")
    customer.fills("Username:", f"{name}-{uuid.uuid4().hex[:8]}")
    customer.fills("Password:", "a password of a test")
    customer.fills("Password confirmation:", "a password of a test")
    customer.confirms("Sign up")


def event_types(customer: Operator, state: str) -> list[str]:
    """Return the event types of the deliveries in this state in the list, without those of test events."""
    rows = customer.row(state).all()
    types = [row.get_by_role("cell").nth(1).inner_text() for row in rows]
    return sorted(each for each in types if "(" not in each)


def test_the_sign_up_looks_well(browser: Browser, service: str) -> None:
    with browser.new_context(locale="de") as context:
        tab = context.new_page()
        for path in ("/accounts/sign-up/", "/accounts/login/"):
            tab.goto(service + path)
            assert problems_in_each_look(tab, path) == []
        assert tab.get_by_role("button", name="Anmelden").is_visible()


def test_a_new_customer_tests_and_repairs_a_webhook(browser: Browser, service: str) -> None:
    with browser.new_context(locale="en") as context:
        tab = context.new_page()
        customer = Operator(tab, service)
        began = time.monotonic()
        signs_up(customer, "amina")
        customer.follows("New webhook")
        customer.clicks(tab.get_by_role("group", name="PPT generation").get_by_label("all of this group"))
        customer.confirms("Create")
        customer.sees("Copy it now. It is not shown again.")
        customer.sees(VERIFIED)
        customer.follows("Continue to the webhook")
        customer.follows("Send a test event")
        customer.confirms("Send")
        customer.sees("Answered with status 200, which confirms receipt.")
        assert (customer.steps <= 14, time.monotonic() - began <= 180) == (True, True)

        customer.follows("Back")
        customer.follows("See what it received")
        assert "verified" in customer.row("ppt.generation").first.inner_text()
        assert problems_in_each_look(tab, "receiver of the demonstration") == []
        customer.confirms("Let it fail")
        customer.sees("It answers every request with 503")
        customer.follows("Page of the webhook")
        customer.follows("API keys")
        customer.follows("New API key")
        customer.fills("Name", "Import")
        customer.clicks(tab.get_by_role("checkbox").first)
        customer.confirms("Create")
        customer.sees("Send it in the header of each request:")
        customer.follows("Your presentations")
        assert problems_in_each_look(tab, "presentations of the example") == []
        customer.confirms("Create")
        customer.sees("The presentation is being made.")
        customer.follows("Your webhooks")
        customer.reloads_until("1 webhook needs attention.", timeout_seconds=GIVEN_UP_WITHIN_SECONDS)
        lost = tab.locator("dt", has_text="Given up").locator("xpath=following-sibling::dd")
        expect(lost).to_have_text("2", timeout=1000 * GIVEN_UP_WITHIN_SECONDS)  # the page reads itself again

        customer.steps = 0
        customer.clicks(tab.get_by_role("main").get_by_role("link", name="http://127.0.0.1").first)
        customer.sees("Last failure: Answered with status 503")
        customer.follows("See what it received")
        customer.confirms("Repair it")
        customer.follows("Page of the webhook")
        customer.clicks(tab.get_by_role("link", name=re.compile(r"^Send \d+ missed event")))
        customer.confirms("Send missed events")
        customer.sees("Done:")
        assert customer.steps <= 6

        customer.follows("Webhooks")
        customer.clicks(tab.get_by_role("main").get_by_role("link", name="http://127.0.0.1").first)
        customer.follows("See what it received")
        repaired = customer.row("ppt.generation.completed").filter(has_text="200")
        repaired.first.wait_for(timeout=EXPECT_MILLISECONDS)
        assert "verified" in repaired.first.inner_text()
        customer.follows("Page of the webhook")
        customer.clicks(tab.get_by_role("navigation", name="Sections").get_by_role("link", name="Deliveries"))
        customer.sees("given up")
        missed = event_types(customer, "given up")
        assert missed == ["ppt.generation.completed", "ppt.generation.started"]
        wait_until(lambda: bool(customer.tab.reload()) and event_types(customer, "succeeded") == missed)


def test_a_webhook_is_created_and_tested_by_the_keyboard_alone(browser: Browser, service: str) -> None:
    with browser.new_context(locale="en") as context:
        tab = context.new_page()
        customer = Operator(tab, service)
        signs_up(customer, "clara")
        customer.sees("No webhooks yet")
        customer.presses("Enter", customer.link("New webhook"))
        customer.presses("Space", tab.get_by_role("group", name="File").get_by_label("all of this group"))
        customer.presses("Enter", tab.get_by_role("button", name="Create", exact=True))
        customer.sees(VERIFIED)
        customer.presses("Enter", customer.link("Continue to the webhook"))
        customer.presses("Enter", customer.link("Send a test event"))
        customer.presses("Enter", tab.get_by_role("button", name="Send", exact=True))
        customer.sees("Answered with status 200, which confirms receipt.")


def test_a_webhook_is_created_tested_and_deleted_without_javascript(browser: Browser, service: str) -> None:
    with browser.new_context(locale="en", java_script_enabled=False) as context:
        tab = context.new_page()
        customer = Operator(tab, service)
        signs_up(customer, "dora")
        customer.follows("New webhook")
        customer.clicks(tab.get_by_role("checkbox", name="file.uploaded"))
        customer.confirms("Create")
        customer.sees("Copy it now. It is not shown again.")
        customer.reloads_until(VERIFIED)
        customer.follows("Continue to the webhook")
        customer.follows("Send a test event")
        customer.confirms("Send")
        customer.reloads_until("Answered with status 200, which confirms receipt.")

        customer.follows("Deliveries")
        customer.clicks(tab.get_by_role("link", name=re.compile("^Delivered")))
        customer.clicks(customer.row("file.uploaded").get_by_role("link").first)
        customer.confirms("Redeliver")
        customer.sees("Redelivered the event.")
        customer.follows("Webhooks")
        customer.clicks(tab.get_by_role("main").get_by_role("link", name="http://127.0.0.1").first)
        for action, done in (("Pause", "Paused"), ("Resume", "Resumed"), ("Delete", "Deleted")):
            if action != "Resume":  # which is the remedy
                customer.follows("Settings")
            if action == "Pause":
                customer.clicks(tab.get_by_text("How", exact=True))
            customer.does(action)
            customer.sees(f"{done} the webhook.")
