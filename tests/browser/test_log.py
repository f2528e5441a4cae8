"""The log of two panes on the customers' pages: its rows, its keys, new rows, and life without its script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from webhooks_app.models import Delivery

from ..portal.conftest import Customer, make_customer
from .conftest import Login, new_session

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(300)]

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 1000, "height": 900}


@pytest.fixture
def customer(transactional_db: None) -> Customer:
    return make_customer("amina")


@contextmanager
def opened(
    browser: Browser, live_server: Any, customer: Customer, name: str = "deliveries", **options: Any
) -> Iterator[Tab]:
    with browser.new_context(**{"locale": "en", "viewport": WIDE, **options}) as context:
        context.add_cookies([Login(address=live_server.url, session=new_session(customer.user)).cookie])  # type: ignore[list-item]
        tab = context.new_page()
        tab.goto(live_server.url + customer.url(name))
        yield tab


def again(customer: Customer, **fields: Any) -> Delivery:
    return Delivery.objects.create(webhook=customer.webhook, event=customer.event, **fields)


def test_a_row_opens_beside_the_list_and_its_button_acts_there(
    browser: Browser, live_server: Any, customer: Customer
) -> None:
    customer.delivery.attempts.update(timestamp=1)  # a request was sent
    again(customer, state="succeeded")
    with opened(browser, live_server, customer) as tab:
        pane = tab.get_by_role("region", name="Chosen row")
        expect(pane.get_by_text("succeeded")).to_be_visible()

        tab.get_by_role("row", name="503").get_by_role("link").first.click()
        expect(pane.get_by_role("heading", name="Attempt 1")).to_be_visible()
        pane.get_by_text("curl", exact=True).click()
        expect(pane.get_by_label("Command")).to_be_visible()
        expect(pane.get_by_label("Response header")).to_be_hidden()
        pane.get_by_role("button", name="Redeliver").click()

        expect(pane.get_by_text("Redelivered the event.")).to_be_visible()
        expect(pane.get_by_role("link", name=customer.delivery.pk)).to_be_visible()
        assert tab.url.partition("#")[0] == live_server.url + customer.url("deliveries")


def test_arrow_keys_move_and_enter_opens(browser: Browser, live_server: Any, customer: Customer) -> None:
    again(customer, state="succeeded")
    with opened(browser, live_server, customer) as tab:
        first, second = tab.get_by_role("row").get_by_role("link").all()[:2]
        first.focus()

        tab.keyboard.press("ArrowDown")
        expect(second).to_be_focused()
        tab.keyboard.press("Enter")

        expect(tab.get_by_role("region", name="Chosen row").get_by_text("given up", exact=True)).to_be_visible()
        expect(second).to_be_focused()
        tab.keyboard.press("ArrowUp")
        expect(first).to_be_focused()


def test_new_rows_come_on_top_or_are_counted(browser: Browser, live_server: Any, customer: Customer) -> None:
    Delivery.objects.bulk_create(
        [Delivery(webhook=customer.webhook, event=customer.event, state="succeeded") for _ in range(40)]
    )
    again(customer, state="pending")  # something is expected, so the page is read soon
    with opened(browser, live_server, customer) as tab:
        rows = tab.get_by_role("row")
        expect(rows.nth(1)).to_contain_text("pending")
        again(customer, state="cancelled")
        expect(rows.nth(1)).to_contain_text("cancelled")

        tab.mouse.wheel(0, 3000)
        again(customer, state="given_up")
        button = tab.get_by_role("button", name="1 new")
        expect(button).to_be_visible(timeout=20_000)
        expect(rows.nth(1)).to_contain_text("cancelled")
        button.click()

        expect(rows.nth(1)).to_contain_text("given up")
        expect(button).to_be_hidden()


@pytest.mark.parametrize("options", [{"viewport": NARROW}, {"java_script_enabled": False}], ids=["narrow", "no script"])
@pytest.mark.parametrize("name", ["deliveries", "events"])
def test_otherwise_a_row_is_a_link(
    browser: Browser, live_server: Any, customer: Customer, options: dict[str, Any], name: str
) -> None:
    with opened(browser, live_server, customer, name, **options) as tab:
        tab.get_by_role("row", name=customer.event.type).first.get_by_role("link").first.click()

        expect(tab.get_by_role("heading", level=1, name=customer.event.type)).to_be_visible()
        expect(tab.get_by_role("region", name="Chosen row")).to_have_count(0)
