"""The console in admin themes that replace Django's templates and styles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from ..browser.conftest import browser  # noqa: F401
from ..browser.inspection import COLOURS
from .environment import Environment
from .hosts import HOSTS, Host
from .running import Integrator, Project, Staff

THEMES = [host for host in HOSTS if host.name in ("unfold_admin", "jazzmin_admin")]

WITHOUT_BORDER = """
    [...document.querySelectorAll("#content-main :is(input[type=text], input[type=url], input[type=number], textarea)")]
    .filter(field => parseFloat(getComputedStyle(field).borderTopWidth) === 0).map(field => field.name)
"""


@pytest.fixture(params=[pytest.param(host, id=host.name) for host in THEMES])
def console(
    request: pytest.FixtureRequest,
    environment: Environment,
    tmp_path: Path,
    browser: Browser,  # noqa: F811
) -> Iterator[Any]:
    """Yield a function for opening a page of the console, and the path of a webhook."""
    host: Host = request.param
    project = Project(host, environment, tmp_path)
    prepared = project.prepare()
    project.manage("make_demo_data --deliveries 200 --webhooks 12 --owners 2 --days 2")
    with project.serving():
        webhook = Integrator(project, prepared["key"]).register("http://127.0.0.1:9999/", "a secret that we share")
        staff = Staff(project, prepared["staff"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        cookies = [(cookie.name, cookie.value) for cookie in staff.session.cookies]
        context.add_cookies([{"name": name, "value": value, "url": project.address("/")} for name, value in cookies])

        def opened(path: str, colours: str = "light") -> Page:
            page = context.new_page()
            page.emulate_media(color_scheme=colours)
            page.goto(project.address(host.console + path.format(webhook=webhook["id"])))
            return page

        yield opened
        context.close()


@pytest.mark.timeout(400)
def test_the_console_is_usable_in_the_theme(console: Any) -> None:
    for path in ("webhook/add/", "apikey/add/", "webhook/{webhook}/act/rotate_secret/"):
        assert console(path).evaluate(WITHOUT_BORDER) == [], path

    index = console("")
    for page in ("receivers", "eventtypes", "operations"):
        assert index.locator(f"a[href$='/webhooks_app/{page}/']").count() > 0, page
    receivers = console("receivers/")
    assert receivers.locator("table").count() == 1
    assert receivers.locator(":is(aside, nav, #nav-sidebar) a[href$='/webhooks_app/receivers/']").count() > 0

    webhook = console("webhook/{webhook}/change/")
    disable = webhook.get_by_role("link", name="Disable", exact=True).bounding_box()
    assert disable["y"] < webhook.get_by_text("Status", exact=False).first.bounding_box()["y"] + 200

    deliveries = console("delivery/")
    deliveries.locator("input[name=webhook]").last.evaluate("field => { field.value = 'http://elsewhere'; }")
    deliveries.locator("input[name=webhook]").last.evaluate("field => field.form.requestSubmit()")
    deliveries.wait_for_url("**webhook=http**")
    assert deliveries.locator("#result_list tbody tr").count() == 0

    for colours in ("light", "dark"):
        page = console("", colours)
        found = page.evaluate(COLOURS)
        assert found["text"] >= 4.5, (colours, found)
        assert found["median"] >= 3, (colours, found)
        assert found["given_up"] >= 3, (colours, found)
        assert 1.1 <= found["grid"] <= 5, (colours, found)
        assert 1.1 <= found["empty"] <= 5, (colours, found)
        assert (found["plain_links"], found["collisions"]) == (0, 0), (colours, found)
        for path in ("", "delivery/", "event/"):
            states = console(path, colours).evaluate(COLOURS)
            assert states["number"] > 0, path
            assert states["states"] >= 4.5, (path, colours, states)
