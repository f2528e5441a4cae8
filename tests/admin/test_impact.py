"""The page of the accounts that failures have hit: period, cause, permissions and the number of rows read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from webhooks_app.admin import impact
from webhooks_app.admin.actions import CONFIRMED
from webhooks_app.models import Replay, Webhook, WebhookHealth

from ..support.rows import make_problem
from .conftest import Page, shows, text
from .test_content_security import InlineParts

pytestmark = pytest.mark.only_on("sqlite", "postgresql", "mariadb")


def hits(page: Page, **query: str) -> list[tuple[str, int, int]]:
    found = page.get("problem", "impact", **query).context["hits"]
    return [(hit.account, len(hit.webhooks), hit.given_up) for hit in found]


@pytest.fixture
def failures(webhook: Webhook, new_webhook: Callable[..., Webhook]) -> Webhook:
    """Failures of two accounts, one of them also a day ago."""
    other = new_webhook(None)
    recent = {"hour": {"given_up": 3}, "day": {"given_up": 30}}
    WebhookHealth.objects.create(webhook=webhook, recent=recent)
    make_problem(webhook, 503)
    make_problem(webhook)
    make_problem(other, 404, last_seen_at=timezone.now() - timedelta(hours=2))
    return webhook


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [("amina", 1, 3)]),
        ({"window": "day"}, [("amina", 1, 30), ("the platform", 1, 0)]),
        ({"window": "day", "answer": "4xx"}, [("the platform", 1, 0)]),
        ({"answer": "503"}, [("amina", 1, 3)]),
        ({"answer": "500"}, []),
        ({"answer": "timeout"}, [("amina", 1, 3)]),
        ({"result": "http_status"}, [("amina", 1, 3)]),
        ({"result": "tls_error"}, []),
        ({"answer": "nonsense", "window": "ever"}, []),
    ],
    ids=str,
)
def test_period_and_cause(superuser: Page, failures: Webhook, query: dict[str, str], expected: list[Any]) -> None:
    assert hits(superuser, **query) == expected


def test_the_accounts_of_the_last_hour_are_one_step_from_the_overview(superuser: Page, failures: Webhook) -> None:
    link = reverse("admin:webhooks_app_problem_impact")

    overview = superuser.client.get(reverse("admin:app_list", args=["webhooks_app"]))
    page = superuser.client.get(link)

    assert link in text(overview)
    assert all(shows(page, words) for words in ("amina", failures.url))


def test_an_account_leads_to_its_problems(superuser: Page, failures: Webhook) -> None:
    (hit,) = superuser.get("problem", "impact", answer="5xx").context["hits"]

    listed = superuser.client.get(hit.problems_url).context["cl"].result_list

    assert [problem.code for problem in listed] == [503]


def test_the_platform_leads_to_its_own_problems(superuser: Page, failures: Webhook) -> None:
    found = superuser.get("problem", "impact", window="day").context["hits"]

    listed = [superuser.client.get(hit.problems_url) for hit in found]

    assert [hit.account for hit in found] == ["amina", "the platform"]
    assert [sorted(problem.code for problem in page.context["cl"].result_list) for page in listed] == [[0, 503], [404]]
    assert shows(listed[1], "the platform")


def test_the_key_of_an_account_is_not_taken_for_another_one_s_name(superuser: Page, failures: Webhook) -> None:
    owner = failures.owner
    type(owner).objects.create_user(str(owner.pk))

    (hit,) = superuser.get("problem", "impact").context["hits"]

    assert {problem.webhook for problem in superuser.client.get(hit.problems_url).context["cl"].result_list} == {
        failures
    }


def test_other_staff_see_their_own_accounts(staff: Callable[..., Page], failures: Webhook, new_webhook: Any) -> None:
    page = staff("boris", "view_problem")
    make_problem(new_webhook(page.user), 503)

    assert hits(page) == [("boris", 1, 0)]
    assert staff("carol").get("problem", "impact").status_code == 403


def test_a_bounded_number_of_rows_is_read(superuser: Page, failures: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impact, "MOST_PROBLEMS", 1)

    with CaptureQueriesContext(connection) as captured:
        page = superuser.get("problem", "impact", window="day")

    asked = [each["sql"] for each in captured if "webhooks_app" in each["sql"]]
    assert shows(page, "Only the latest 1 problems are considered.")
    assert (len(asked), "LIMIT 1" in asked[0]) == (2, True)
    assert not any("webhooks_app_delivery" in sql for sql in asked)


def test_nothing_is_inline(superuser: Page, failures: Webhook) -> None:
    parts = InlineParts()
    parts.feed(text(superuser.get("problem", "impact")))

    assert parts.found == []


def test_one_button_sends_what_all_have_missed(superuser: Page, failures: Webhook) -> None:
    found = superuser.get("problem", "impact", window="day")
    assert "Send missed events to 2 webhooks" in text(found)

    asked = superuser.client.post(
        found.context["recovery_url"], {"action": "send_missed", ACTION_CHECKBOX_NAME: found.context["recovery"]}
    )
    sent = superuser.client.post(
        found.context["recovery_url"],
        {"action": "send_missed", ACTION_CHECKBOX_NAME: found.context["recovery"], CONFIRMED: "yes"},
    )

    assert "Send the missed events to these 2 webhooks?" in text(asked)
    assert sent.status_code == 302
    assert {replay.webhook_id for replay in Replay.objects.all()} == set(found.context["recovery"])
    assert {replay.state for replay in Replay.objects.all()} == {Replay.State.RUNNING}


def test_webhooks_that_cannot_receive_are_left_out(superuser: Page, failures: Webhook) -> None:
    failures.disable("Out of order.")

    assert superuser.get("problem", "impact").context["recovery"] == []


def test_who_may_not_replay_has_no_button(staff: Callable[..., Page], failures: Webhook) -> None:
    assert "Send missed events" not in text(staff("nadia", "view_problem", "view_webhook").get("problem", "impact"))
