"""Health of webhooks in their list, on their pages and in the overview."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.maintenance.rollups.conftest import make_tally
from tests.support.reading import cells, named
from webhooks_app.models import Webhook, WebhookHealth

from .conftest import Page, text
from .test_overview import overview

ENDANGERED = "Webhooks with failures"
COUNTED = {"succeeded_at_once": 6, "succeeded_later": 2, "given_up": 2, "ms_100": 8, "ms_sum": 640}


def make_health(webhook: Webhook, *, days: float = 2.6, given_up: int = 57, **fields: Any) -> WebhookHealth:
    """Create the health of a webhook that has failed for these days."""
    now = timezone.now()
    return WebhookHealth.objects.create(
        webhook=webhook,
        failing_since=now - timedelta(days=days),
        given_up_since=now - timedelta(days=days),
        last_given_up_at=now - timedelta(minutes=5),
        given_up_count=given_up,
        **fields,
    )


def test_the_list_shows_the_last_day_of_a_webhook(superuser: Page, webhook: Webhook) -> None:
    make_tally(timezone.now(), **{webhook.pk: COUNTED})
    make_tally(timezone.now() - timedelta(days=2), **{webhook.pk: COUNTED})

    course = named(text(superuser.get("webhook")), "8 delivered, 2 given up")

    assert course["role"] == "img"
    assert len(course.find_all("path")) == 3


def test_the_list_shows_failing_webhooks_and_when_they_are_disabled(superuser: Page, webhook: Webhook) -> None:
    make_health(webhook)

    html = text(superuser.get("webhook"))

    assert cells(html, "Last delivery") == ["5 min ago"]
    assert cells(html, "Failing") == ["for 3 d disabled in 2 d"]


@pytest.mark.parametrize(
    ("given_up", "fields"),
    [(3, {}), (57, {"paused_at": timezone.now()}), (57, {"status": "disabled"})],
    ids=["too few", "paused", "disabled"],
)
def test_the_list_shows_no_time_if_the_webhook_will_not_be_disabled(
    superuser: Page, webhook: Webhook, given_up: int, fields: dict[str, Any]
) -> None:
    make_health(webhook, given_up=given_up)
    Webhook.objects.update(**fields)

    assert "disabled in" not in text(superuser.get("webhook"))


def test_the_list_shows_the_reason_of_a_disabled_webhook(superuser: Page, webhook: Webhook) -> None:
    webhook.disable("Every delivery was given up.")

    assert cells(text(superuser.get("webhook")), "Status") == ["disabled: Every delivery was given up."]


def test_the_number_of_queries_does_not_grow(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            superuser.get("webhook")
        return len(queries)

    def add(number: int) -> None:
        webhooks = [new_webhook(superuser.user) for _ in range(number)]
        make_tally(timezone.now(), **{webhook.pk: COUNTED for webhook in webhooks})
        for webhook in webhooks:
            make_health(webhook)

    add(2)
    few = asked()
    add(30)

    assert asked() == few


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda webhook: None, "Nothing has been sent to it yet, except tests and verifications."),
        (
            lambda webhook: WebhookHealth.objects.create(webhook=webhook, last_success_at=timezone.now()),
            "Last success",
        ),
        (make_health, "Will be disabled on"),
        (lambda webhook: make_health(webhook, warned_at=timezone.now()), "Account notified:"),
        (
            lambda webhook: make_health(webhook, given_up=3),
            "10 deliveries or more were given up over 12 h or more.",
        ),
    ],
    ids=["new", "well", "about to be disabled", "warned", "not enough"],
)
def test_the_page_of_a_webhook_shows_its_health(
    superuser: Page, webhook: Webhook, make: Callable[[Webhook], Any], expected: str
) -> None:
    make(webhook)

    assert expected in text(superuser.get("webhook", "change", webhook.pk))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda webhook: webhook.pause(), "Automatic disabling is suspended while the webhook is paused."),
        (lambda webhook: webhook.disable("Enough."), "No events are sent until the webhook is active."),
    ],
    ids=["paused", "disabled"],
)
def test_the_page_shows_the_outlook_of_a_stopped_failing_webhook(
    superuser: Page, webhook: Webhook, change: Callable[[Webhook], None], expected: str
) -> None:
    make_health(webhook)
    change(webhook)

    assert expected in text(superuser.get("webhook", "change", webhook.pk))


def test_the_charts_contain_only_this_webhook(
    superuser: Page, webhook: Webhook, new_webhook: Callable[..., Webhook]
) -> None:
    make_tally(timezone.now(), **{webhook.pk: COUNTED, new_webhook(webhook.owner).pk: {"succeeded_at_once": 99}})

    html = text(superuser.get("webhook", "change", webhook.pk, window="hour"))

    assert html.count('role="img"') == 1
    assert "<td>6</td>" in html
    assert "<td>105</td>" not in html
    assert '<a href="?window=hour" aria-current="page">' in html


def test_charts_need_permission_to_view_deliveries(staff: Callable[..., Page], new_webhook: Any) -> None:
    page = staff("berta", "view_webhook")
    webhook = new_webhook(page.user)
    make_tally(timezone.now(), **{webhook.pk: COUNTED})
    make_health(webhook)

    listed, shown = text(page.get("webhook")), text(page.get("webhook", "change", webhook.pk))

    assert cells(listed, "Last 24 hours") == ["\N{EN DASH}"]
    assert "disabled in" in listed
    assert 'role="img"' not in shown


def test_the_overview_lists_the_longest_failing_webhooks_first(
    superuser: Page, new_webhook: Callable[..., Webhook]
) -> None:
    for host, days in (("later", 1), ("longest", 4)):
        make_health(new_webhook(superuser.user, url=f"https://{host}.example.com/"), days=days)

    html = str(named(overview(superuser), ENDANGERED))

    assert cells(html, "Webhook") == ["https://longest.example.com/", "https://later.example.com/"]
    states = cells(html, "State")
    assert [state.startswith("Failing") for state in states] == [True, True]
    assert "disabled in 24 h" in states[0]
    assert "disabled in 4 d" in states[1]


def test_the_overview_lists_no_foreign_webhooks(staff: Callable[..., Page], webhook: Webhook) -> None:
    make_health(webhook)

    assert ENDANGERED not in overview(staff("boris", "view_delivery", "view_webhook"))


def test_an_overdue_disabling_is_not_shown_in_the_past(superuser: Page, webhook: Webhook) -> None:
    make_health(webhook, days=6)

    assert "about to be disabled" in text(superuser.get("webhook"))
    assert "Will be disabled shortly" in text(superuser.get("webhook", "change", webhook.pk))


# Operational event types


def test_operational_types_are_offered_for_platform_webhooks(
    superuser: Page, staff: Callable[..., Page], webhook: Webhook, new_webhook: Callable[..., Webhook]
) -> None:
    of_platform = new_webhook(None)

    added, own = text(superuser.get("webhook", "add")), text(staff("berta", "add_webhook").get("webhook", "add"))
    changed = [text(superuser.settings_of(each)) for each in (of_platform, webhook)]

    assert ["delivery.given_up" in html for html in (added, own, *changed)] == [True, False, True, False]


def test_operational_types_can_be_tested_by_users_who_manage_all(
    superuser: Page, staff: Callable[..., Page], webhook: Webhook, new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("berta", "view_webhook", "test_webhook")
    offered = '<option value="delivery.given_up"'

    assert offered in text(superuser.get("webhook", "act", webhook.pk, "send_test"))
    assert offered not in text(page.get("webhook", "act", new_webhook(page.user).pk, "send_test"))


def test_operational_types_are_listed_for_users_who_manage_all(superuser: Page, staff: Callable[..., Page]) -> None:
    page = staff("berta", "view_webhook")

    assert "delivery.given_up" in text(superuser.get("eventtypes"))
    assert "delivery.given_up" not in text(page.get("eventtypes"))
    assert page.get("webhook", "event_type", "delivery.given_up").status_code == 404


def test_the_page_of_an_operational_type_names_its_possible_subscribers(superuser: Page) -> None:
    words = "Only webhooks of the platform"

    assert words in text(superuser.get("webhook", "event_type", "webhook.failing"))
    assert words not in text(superuser.get("webhook", "event_type", "file.deleted"))
