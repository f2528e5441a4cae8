"""The documentation site at the widths of common screens: nothing is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.docs.test_site import site

from .inspection import overflow

__all__ = ["site"]

pytestmark = [
    pytest.mark.only_on("sqlite"),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("the documentation site"),
]

NARROW = 390
WIDTHS = (NARROW, 1366, 1440, 1536)


@pytest.fixture
def tab(browser: Browser) -> Page:
    """A page without JavaScript, so that its layout is complete when it is loaded."""
    context = browser.new_context(java_script_enabled=True, reduced_motion="reduce")
    return context.new_page()


def test_no_page_is_cut_off(tab: Page, site: Path) -> None:
    found = []
    for page in sorted(site.rglob("*.html")):
        tab.goto(page.as_uri(), wait_until="domcontentloaded")
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            problems = [*overflow(tab, narrow=width), *(tables_that_scroll(tab) if width == NARROW else ())]
            found += [f"{page.relative_to(site)} at {width}: {each}" for each in problems]

    assert found == []


def tables_that_scroll(tab: Page) -> list[str]:
    """Return the first words of each table that scrolls sideways."""
    return tab.locator(":has(> table > thead)").evaluate_all(  # type: ignore[no-any-return]
        "all => all.filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.innerText.slice(0, 60))"
    )


def test_a_cell_of_a_stacked_row_begins_with_its_heading(tab: Page, site: Path) -> None:
    tab.set_viewport_size({"width": NARROW, "height": 900})

    tab.goto((site / "guides" / "troubleshooting.html").as_uri())

    cells = tab.locator("table tbody tr").first.locator("td")
    headings = cells.evaluate_all(
        "cells => cells.map(cell => getComputedStyle(cell, '::before').content.replaceAll('\"', ''))"
    )
    assert [each.removesuffix(": ").strip() for each in headings] == ["none", "cause", "remedy"]


def test_rows_of_settings_stack_on_a_narrow_screen(tab: Page, site: Path) -> None:
    tab.set_viewport_size({"width": NARROW, "height": 900})

    tab.goto((site / "settings.html").as_uri() + "#webhooks-timeout-seconds")

    cells = tab.locator("#webhooks-timeout-seconds td")
    tops = cells.evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().top)")
    assert len(tops) == 3
    assert tops == sorted(set(tops))


def test_a_cut_page_is_found(tab: Page, site: Path) -> None:
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto((site / "index.html").as_uri())

    tab.evaluate("document.querySelector('article').style.minWidth = '1400px'")

    assert any("pixels wide" in each for each in overflow(tab))
