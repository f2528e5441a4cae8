"""The console in admin themes that replace Django's templates and styles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from .conftest import Console, an_active_webhook, served_in
from .inspection import LOOKS, Look, looking, problems_of
from .test_pages import PAGES, url

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(400)]

AT_REST = """
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("*, ::before, ::after { transition: none !important; animation: none !important }");
    document.adoptedStyleSheets = [sheet];
"""
"""The themes' sidebars slide in and their colours fade, even for readers who prefer reduced motion."""

WITHOUT_BORDER = """
    [...document.querySelectorAll("#content-main :is(input[type=text], input[type=url], input[type=number], textarea)")]
    .filter(field => parseFloat(getComputedStyle(field).borderTopWidth) === 0).map(field => field.name)
"""


@pytest.fixture(params=["unfold", "jazzmin"])
def themed(request: pytest.FixtureRequest, console: Console, tmp_path: Path) -> Iterator[Console]:
    with served_in(request.param, console, tmp_path) as themed:
        yield themed


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.theme)
def test_every_page_is_accessible_in_the_theme(browser: Browser, themed: Console, look: Look) -> None:
    found = {}
    with looking(browser, themed, look) as (tab, problems):
        tab.context.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(body=""))
        tab.context.add_init_script(AT_REST)
        for name, (path, then) in PAGES.items():
            tab.goto(themed.address + path())
            then(tab)
            found[name] = [*problems, *problems_of(tab, look)]
            problems.clear()

    assert {name: each for name, each in found.items() if each} == {}


def test_the_console_is_usable_in_the_theme(browser: Browser, themed: Console) -> None:
    webhook = an_active_webhook()
    with looking(browser, themed, LOOKS[0]) as (tab, _):
        for path in (url("webhook_add"), url("apikey_add"), url("webhook_act", webhook.pk, "rotate_secret")):
            tab.goto(themed.address + path)
            assert tab.evaluate(WITHOUT_BORDER) == [], path

        tab.goto(themed.address + PAGES["index"][0]())
        for page in ("receivers", "eventtypes", "operations"):
            assert tab.locator(f"a[href$='/webhooks_app/{page}/']").count() > 0, page
        tab.goto(themed.address + url("receivers_changelist"))
        assert tab.locator("table").count() == 1
        assert tab.locator(":is(aside, nav, #nav-sidebar) a[href$='/webhooks_app/receivers/']").count() > 0

        tab.goto(themed.address + url("webhook_change", webhook.pk))
        assert tab.get_by_role("link", name="History", exact=True).count() == 1
        assert tab.get_by_role("link", name="Disable", exact=True).is_visible()
        pause = tab.get_by_role("link", name="Pause", exact=True).bounding_box()
        state = tab.get_by_role("region", name="State", exact=True).bounding_box()
        assert pause["y"] < state["y"] + state["height"] + 100

        tab.goto(themed.address + url("delivery_changelist"))
        webhooks = tab.locator("input[name=webhook_id]").last
        webhooks.evaluate("field => { field.value = 'http://elsewhere'; }")
        webhooks.evaluate("field => field.form.requestSubmit()")
        tab.wait_for_url("**webhook_id=http**")
        assert tab.locator("#result_list tbody tr").count() == 0
