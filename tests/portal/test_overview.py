"""The overview of an account: the chart of its deliveries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils import timezone

from tests.maintenance.rollups.conftest import make_tally
from tests.support.reading import cells, named
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.reading import Counters, Point, Series, Window
from webhooks_app.models import Delivery, WebhookHealth
from webhooks_app.pages import charts

from .conftest import Customer

pytestmark = pytest.mark.django_db

COUNTED = {"succeeded_at_once": 6, "succeeded_later": 2, "given_up": 2, "failed_timeout": 8, "ms_100": 8, "ms_sum": 640}


@pytest.fixture
def counted(amina: Customer) -> Customer:
    make_tally(timezone.now(), **{amina.webhook.pk: COUNTED})
    fold("default")
    return amina


@pytest.mark.parametrize("window", ["hour", "day", "week", "month", "never", ""])
def test_every_window_has_its_chart_and_a_table_with_the_same_numbers(counted: Customer, window: str) -> None:
    html = counted.get("overview", window=window).text

    outcomes = named(html, "Deliveries by outcome")
    assert [len(outcomes.find_all(each)) for each in ("path", "a")] == [3, 1]
    assert "6" in cells(html, "At the first attempt")
    assert len(html) < 60_000


def test_the_chart_counts_the_deliveries_of_the_account_alone(counted: Customer, boris: Customer) -> None:
    make_tally(timezone.now(), **{boris.webhook.pk: {**COUNTED, "succeeded_at_once": 70}})

    assert "70" not in cells(counted.get("overview").text, "At the first attempt")
    assert "70" in cells(boris.get("overview").text, "At the first attempt")


def test_a_bar_leads_to_the_deliveries_of_its_time(counted: Customer) -> None:
    now = timezone.now()
    Delivery.objects.filter(pk=counted.delivery.pk).update(finished_at=now, state="given_up")
    earlier = Delivery.objects.create(
        webhook=counted.webhook, event=counted.event, state="given_up", finished_at=now - timedelta(days=2)
    )

    (bar,) = named(counted.get("overview", window="hour").text, "Deliveries by outcome").find_all("a")
    page: Any = counted.client.get(bar["href"])

    assert bar["aria-label"].endswith(": 8 delivered, 2 given up")
    assert [row.delivery.pk for row in page.context["rows"]] == [counted.delivery.pk]
    assert earlier.pk not in page.text


def test_a_quiet_period_has_no_chart(amina: Customer) -> None:
    WebhookHealth.objects.create(webhook=amina.webhook, last_success_at=timezone.now())

    assert "No deliveries in this period." in amina.get("overview", window="month").text


@pytest.mark.parametrize("window", list(Window))
def test_a_full_chart_leaves_the_page_small(window: Window) -> None:
    starts = window.starts(timezone.now())
    counters = Counters({**COUNTED, "succeeded_at_once": 1_000_000, "ms_100": 1_000_000})
    points = [Point(start=start, counters=counters) for start in starts]
    series = Series(points=points, step_seconds=int(window.step.total_seconds()))

    html = render_to_string("webhooks_app/parts/charts.html", charts.shown(series, window, lambda **filters: "x" * 220))

    assert len(html) < 50_000
