"""The search of the console as an operator uses it."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, expect

from webhooks_app import emit

from ..support.rows import EVENT_TYPE, make_webhook
from .conftest import Console
from .inspection import LOOKS, looking

pytestmark = pytest.mark.only_on("sqlite")


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: str(look.width))
def test_an_event_is_found_by_its_reference_without_the_mouse(browser: Browser, empty_console: Console, look) -> None:
    make_webhook(empty_console.superuser)
    event = emit(EVENT_TYPE, {"error": "a"}, owner=empty_console.superuser, references=["ppt_8f14e45f"])

    with looking(browser, empty_console, look) as (tab, problems):
        tab.goto(f"{empty_console.address}{reverse('admin:app_list', args=['webhooks_app'])}")
        tab.keyboard.press("/")
        tab.keyboard.type("ppt_8f14e45f")
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("heading", name="Recipients")).to_be_visible()
        tab.get_by_label("Search everything").type("/")

        assert tab.url.endswith(f"/event/{event.pk}/change/")
        assert tab.get_by_label("Search everything").input_value() == "/"
        assert problems == []
