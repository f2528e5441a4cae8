"""The overview of the console as its charts appear in a browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, expect

from tests.maintenance.rollups.conftest import make_tally
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.reading import Window
from webhooks_app.models import WorkerProcess

from ..pages.test_charts import axes_at_every_hour
from ..support.rows import EVENT_TYPE, make_webhook
from .conftest import Console
from .inspection import FAINT, LOOKS, looking, overflow

pytestmark = pytest.mark.only_on("sqlite")

REFRESHED_AFTER_MILLISECONDS = 21_000

CHARTS = (("group", "Deliveries by outcome"), ("img", "Response time of receivers in milliseconds"))
"""The roles and names of the charts."""

IN_VIEW = """
    (region) => [...region.querySelectorAll("svg")].map(course => {
        const shown = region.getBoundingClientRect(), box = course.getBoundingClientRect();
        return box.width > 0 && box.left >= Math.max(0, shown.left)
            && box.right <= Math.min(innerWidth, shown.right) + 1;
    })
"""
"""Whether the course of each webhook is in view."""


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: str(look.width))
@pytest.mark.parametrize("window", ["hour", "week", "month"])
def test_the_course_of_a_webhook_is_in_view_and_the_charts_are_legible(
    browser: Browser, empty_console: Console, look: Any, window: str
) -> None:
    webhook = make_webhook(empty_console.superuser, EVENT_TYPE, url=f"https://receiver.example/{'long-path/' * 20}")
    webhook.disable("The receiver is out of order until its operators repair it.")
    make_tally(timezone.now(), **{webhook.pk: {"given_up": 25, "failed_timeout": 25, "ms_100": 5, "ms_sum": 400}})
    fold(DEFAULT_DB_ALIAS)

    with looking(browser, empty_console, look) as (tab, problems):
        tab.goto(f"{empty_console.address}{reverse('admin:app_list', args=['webhooks_app'])}?window={window}")
        courses = tab.get_by_role("region", name="Webhooks with failures").evaluate(IN_VIEW)
        unclear = [*tab.evaluate(FAINT), *overflow(tab)]
        bar = tab.get_by_role("link", name="25 given up")
        bar.focus()
        bar.press("Enter")
        tab.wait_for_url("**/delivery/?finished_after=**")

    assert courses == [True]
    assert unclear == []
    assert problems == []


def test_no_label_of_a_chart_is_cut_off_at_any_hour(browser: Browser, console: Console) -> None:
    with looking(browser, console, LOOKS[1]) as (tab, _problems):
        tab.goto(console.address + reverse("admin:app_list", args=["webhooks_app"]))
        chart = tab.locator("figure svg").first
        assert overflow(tab) == []
        for window in Window:
            for now, drawn in axes_at_every_hour(window):
                chart.evaluate("(svg, drawn) => { svg.innerHTML = drawn; }", drawn)
                assert (now, overflow(tab)) == (now, [])


def test_the_first_screen_has_the_state_the_figures_and_both_charts(browser: Browser, console: Console) -> None:
    with looking(browser, console, LOOKS[0]) as (tab, _problems):
        tab.goto(console.address + reverse("admin:app_list", args=["webhooks_app"]))
        overview = tab.get_by_role("region", name="Overview")
        parts = [overview.get_by_text("Open problems"), overview.get_by_text("Given up").first]
        charts = [overview.get_by_role(role, name=name) for role, name in CHARTS]
        ends = [box["y"] + box["height"] for each in (*parts, *charts) if (box := each.bounding_box()) is not None]

    assert len(ends) == 4
    assert max(ends) <= LOOKS[0].height


def test_the_overview_is_refreshed_until_an_error(browser: Browser, empty_console: Console) -> None:
    url = empty_console.address + reverse("admin:app_list", args=["webhooks_app"])
    with looking(browser, empty_console, LOOKS[0]) as (tab, problems):
        tab.clock.install()
        tab.goto(f"{url}?window=hour")
        state, announcement = tab.get_by_role("region", name="Overview"), tab.get_by_role("status").last
        expect(state).to_contain_text("Not delivering")
        expect(announcement).to_be_empty()

        now = timezone.now()
        WorkerProcess.objects.create(id="x", host="x", pid=1, started_at=now, seen_at=now)
        tab.clock.fast_forward(REFRESHED_AFTER_MILLISECONDS)
        expect(state).to_contain_text("Healthy")
        expect(announcement).to_contain_text("Healthy")
        expect(tab.locator("[aria-current=page]", has_text="Last hour")).to_be_visible()
        assert problems == []

        tab.context.clear_cookies()
        tab.clock.fast_forward(REFRESHED_AFTER_MILLISECONDS)
        expect(tab.get_by_text("no longer refreshed")).to_be_visible()
        tab.clock.fast_forward(REFRESHED_AFTER_MILLISECONDS)
        expect(state).to_contain_text("Healthy")
