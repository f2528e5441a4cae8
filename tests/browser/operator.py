"""An operator at the console: clicks, inputs and expectations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from ..support.waiting import wait_until
from .conftest import Login
from .inspection import LOOKS, keep_picture, looking

MAX_STOPS = 150
"""Maximum number of times to press Tab on a page."""

RELOAD_MILLISECONDS = 500

SHOWS_FOCUS = """() => {
  const style = getComputedStyle(document.activeElement);
  const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return hasOutline || style.boxShadow !== "none";
}"""
HAS_FOCUS = "element => element === document.activeElement"


class Operator:
    """``steps`` counts clicks, and fields that are filled in."""

    def __init__(self, tab: Page, address: str) -> None:
        self.tab = tab
        self.steps = 0
        self._address = address

    def opens(self, path: str) -> None:
        self.tab.goto(self._address + path)

    def follows(self, link: str) -> None:
        self.clicks(self.link(link))

    def does(self, action: str) -> None:
        """Press the button of an action, then that of its confirmation page."""
        self.follows(action)
        self.confirms(action)

    def confirms(self, action: str) -> None:
        self.clicks(self.tab.get_by_role("button", name=action, exact=True))

    def clicks(self, target: Locator) -> None:
        target.click()
        self.steps += 1

    def types(self, field: str, text: str) -> None:
        self.tab.get_by_role("textbox", name=field).fill(text)
        self.steps += 1

    def fills(self, label: str, text: str) -> None:
        self.field(label).fill(text)
        self.steps += 1

    def sees(self, text: str) -> None:
        expect(self.tab.get_by_text(text).first).to_be_visible()

    def reloads_until(self, text: str, *, timeout_seconds: float = 60) -> None:
        """Reload the page, without JavaScript, until it shows the text."""

        def shows_it() -> bool:
            self.tab.wait_for_timeout(RELOAD_MILLISECONDS)
            self.tab.reload()
            return self.tab.get_by_text(text).first.is_visible()

        wait_until(shows_it, timeout_seconds=timeout_seconds)

    def is_offered_none_of(self, *links: str) -> None:
        for link in links:
            expect(self.link(link)).to_have_count(0)

    def reads_the_secret(self) -> str:
        self.sees("Copy it now. It is not shown again.")
        return self.tab.get_by_role("code").inner_text()

    def link(self, name: str) -> Locator:
        return self.tab.get_by_role("link", name=name, exact=True)

    def to_add(self, model: str) -> Locator:
        """Return the index page's link to add a row of a model."""
        rows = self.tab.get_by_role("main").get_by_role("row").filter(has=self.link(model))
        return rows.get_by_role("link", name="Add")

    def field(self, label: str) -> Locator:
        return self.tab.get_by_label(label)

    def opens_section(self, name: str) -> None:
        self.tab.get_by_role("heading", name=name, exact=True).click()

    def row(self, text: str) -> Locator:
        return self.tab.get_by_role("row").filter(has_text=text)

    def presses_enter(self) -> None:
        with self.tab.expect_navigation():
            self.tab.keyboard.press("Enter")

    def presses(self, key: str, target: Locator) -> None:
        """Press a key on a target that Tab has reached. Enter leads to another page."""
        self.tabs_to(target)
        if key == "Enter":
            self.presses_enter()
        else:
            self.tab.keyboard.press(key)
        self.steps += 1

    def tabs_to(self, target: Locator) -> None:
        """Press Tab until the target has the focus. Check that each focused element shows its focus."""
        for _ in range(MAX_STOPS):
            self.tab.keyboard.press("Tab")
            focused = self.tab.evaluate("document.activeElement.outerHTML.slice(0, 200)")
            assert self.tab.evaluate(SHOWS_FOCUS), focused
            if target.evaluate(HAS_FOCUS):
                return
        pytest.fail(f"{MAX_STOPS} times Tab do not lead to it, but to {focused}")


@contextmanager
def at_the_console(browser: Browser, login: Login, *, with_javascript: bool = True) -> Iterator[Operator]:
    """Yield a logged-in operator, and finally check that the browser reported no errors."""
    with looking(browser, login, LOOKS[0], with_javascript=with_javascript) as (tab, problems):
        try:
            yield Operator(tab, login.address)
        finally:
            keep_picture(tab, os.environ["PYTEST_CURRENT_TEST"].rpartition("::")[2])
        assert problems == []
