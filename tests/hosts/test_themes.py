"""The console in admin themes that replace Django's templates and styles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from ..browser.conftest import browser  # noqa: F401
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
    with project.serving():
        webhook = Integrator(project, prepared["key"]).register("http://127.0.0.1:9999/", "a secret that we share")
        staff = Staff(project, prepared["staff"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        cookies = [(cookie.name, cookie.value) for cookie in staff.session.cookies]
        context.add_cookies([{"name": name, "value": value, "url": project.address("/")} for name, value in cookies])

        def opened(path: str) -> Page:
            page = context.new_page()
            page.goto(project.address(host.console + path.format(webhook=webhook["id"])))
            return page

        yield opened
        context.close()


@pytest.mark.timeout(180)
def test_the_console_is_usable_in_the_theme(console: Any) -> None:
    for path in ("webhook/add/", "apikey/add/", "webhook/{webhook}/act/rotate_secret/"):
        assert console(path).evaluate(WITHOUT_BORDER) == [], path

    webhook = console("webhook/{webhook}/change/")
    disable = webhook.get_by_role("link", name="Disable", exact=True).bounding_box()
    assert disable["y"] < webhook.get_by_text("Status", exact=False).first.bounding_box()["y"] + 200

    deliveries = console("delivery/")
    deliveries.locator("input[name=webhook]").last.evaluate("field => { field.value = 'http://elsewhere'; }")
    deliveries.locator("input[name=webhook]").last.evaluate("field => field.form.requestSubmit()")
    deliveries.wait_for_url("**webhook=http**")
    assert deliveries.locator("#result_list tbody tr").count() == 0
