"""The overview of an account: the chart of its deliveries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils import timezone

from tests.maintenance.rollups.conftest import make_tally
from tests.support.reading import cells, figure, named, words
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.reading import Counters, Point, Series, Window
from webhooks_app.models import Delivery, Problem, QueueEntry, WebhookHealth
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


def test_what_needs_attention_most_comes_first_with_its_cause_and_its_answer(counted: Customer) -> None:
    now = timezone.now()
    Delivery.objects.filter(pk=counted.delivery.pk).update(finished_at=now, state="given_up", last_result="http_status")
    lost = {"failing_since": now, "given_up_since": now, "given_up_count": 2, "refused_count": 8, "refused_since": now}
    WebhookHealth.objects.create(webhook=counted.webhook, refused_at=now, refused={"500": 8}, **lost)
    Problem.objects.create(
        webhook=counted.webhook, result="http_status", code=500, first_seen_at=now, last_seen_at=now, opened_at=now
    )
    counted.webhook.audit("webhook.verified")

    html = counted.get("overview").text

    state, happened = words(named(html, "State")), words(named(html, "What happened"))
    assert state.startswith("Failing")
    assert "The last 8 requests failed" in state
    assert "all with: status 500." in state
    assert cells(html, "Delivered") == ["8 of 10"]
    assert cells(html, "Last answer")[0].startswith("500 · ")
    assert "Requests fail: 500 Internal Server Error" in happened
    assert "Verification passed" in happened


def test_causes_that_an_owner_may_not_know_are_hidden_in_what_happened(amina: Customer) -> None:
    now = timezone.now()
    amina.webhook.disable("Replaced.")
    times = {"first_seen_at": now, "last_seen_at": now, "opened_at": now}
    Problem.objects.create(webhook=amina.webhook, result="connection_error", **times)

    happened = words(named(amina.get("overview").text, "What happened"))

    assert "Requests fail: URL not reached" in happened
    assert "connection" not in happened.lower()


def test_scheduled_retries_are_counted(amina: Customer) -> None:
    now = timezone.now()
    delivery = Delivery.objects.queue(webhook=amina.webhook, event=amina.event, kind="event")
    QueueEntry.objects.filter(pk=delivery.pk).update(attempt=1, due_at=now + timedelta(seconds=30))

    html = amina.get("overview").text

    assert figure(html, "Retrying") == "1"
    assert words(named(html, "State")).startswith("Retrying")


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
