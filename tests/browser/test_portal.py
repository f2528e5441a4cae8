"""The customers' pages in a browser, with hostile texts everywhere, under their own Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from ..portal.conftest import Customer, make_customer
from ..portal.hostile import make_hostile
from ..portal.test_routes import PARTS, READING, path_of
from .conftest import Login, new_session
from .inspection import LOOKS, Look, keep_picture, looking, problems_of

pytestmark = pytest.mark.only_on("sqlite")

PAGES = [name for name in READING if name not in PARTS] + ["webhook-new", "key-new"]


@pytest.fixture
def customer(live_server: Any) -> Customer:
    customer = make_customer("amina")
    make_hostile(customer)
    return customer


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.theme)
def test_every_page_is_accessible_and_runs_no_hostile_text(
    browser: Browser, live_server: Any, customer: Customer, look: Look
) -> None:
    login = Login(address=live_server.url, session=new_session(customer.user))
    with looking(browser, login, look) as (tab, problems):
        found = {name: [*_visited(tab, login, customer, name, look), *_taken(problems)] for name in PAGES}

    assert {name: each for name, each in found.items() if each} == {}


def _visited(tab: Tab, login: Login, customer: Customer, name: str, look: Look) -> Iterator[str]:
    """Open a page and yield its problems."""
    response = tab.goto(login.address + path_of(name, customer, customer))
    assert response is not None
    assert response.status == 200, name
    keep_picture(tab, f"portal {name} {look.width} {look.theme}")
    if tab.title() == "hostile":
        yield "a hostile text was run"
    yield from problems_of(tab, look)


def _taken(problems: list[str]) -> list[str]:
    taken = problems[:]
    problems.clear()
    return taken
