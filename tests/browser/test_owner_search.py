"""The search for an account while the user types, by keyboard."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, expect

from webhooks_app.models import Webhook

from ..support.rows import EVENT_TYPE
from .conftest import Console
from .operator import at_the_console
from .test_pages import url

pytestmark = pytest.mark.only_on("sqlite")


def test_an_account_beyond_the_first_ones_is_chosen_by_keyboard(browser: Browser, empty_console: Console) -> None:
    users = get_user_model().objects
    users.bulk_create(get_user_model()(username=f"customer-{number:03}") for number in range(120))

    with at_the_console(browser, empty_console) as operator:
        operator.opens(url("webhook_add"))
        field = operator.tab.get_by_role("combobox", name="Account")
        options = operator.tab.get_by_role("option", name="customer-")
        field.press_sequentially("MER-11")
        expect(operator.tab.get_by_role("status").filter(has_text="10 accounts.")).to_be_visible()
        expect(options).to_have_text([f"customer-11{number}" for number in range(10)])
        field.press("ArrowDown")
        field.press("ArrowDown")
        expect(options.nth(1)).to_have_attribute("aria-selected", "true")
        expect(field).to_have_attribute("aria-activedescendant", str(options.nth(1).get_attribute("id")))
        field.press("Escape")
        expect(field).to_have_attribute("aria-expanded", "false")
        field.press("ArrowUp")
        expect(options).to_have_count(10)
        field.press("ArrowUp")
        field.press("Enter")
        expect(field).to_have_value("customer-119")
        operator.tab.get_by_label("URL").fill("https://new.example.com/")
        operator.tab.get_by_label(EVENT_TYPE).check()
        operator.confirms("Save")
        operator.sees("Copy it now.")

    assert Webhook.objects.get().owner.username == "customer-119"
