"""Pictures of every page of the console in each look, to be looked at one by one.

``SCREENSHOTS=directory pytest tests/browser/looks.py -k "de-dark-390"`` takes those of one look.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser

from .conftest import Console
from .inspection import Look, keep_picture, looking, overflow
from .test_pages import PAGES

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(500)]


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)], ids=["1440", "390"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "de"])
def test_every_page_has_its_picture_taken(
    browser: Browser, console: Console, settings: Any, language: str, theme: str, width: int, height: int
) -> None:
    settings.LANGUAGE_CODE = language
    look = Look(theme=theme, width=width, height=height)
    with looking(browser, console, look) as (tab, problems):
        found = {}
        for name, (path, then) in PAGES.items():
            tab.goto(console.address + path())
            then(tab)
            keep_picture(tab, f"{name} {language} {theme} {width}")
            found[name] = [*overflow(tab), *problems]
            problems.clear()

    assert [f"{name}: {problem}" for name, each in found.items() for problem in each] == []
