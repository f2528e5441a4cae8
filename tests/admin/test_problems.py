"""The list and the page of problems: filters, decisions, permissions and the number of rows read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from webhooks_app import emit, registry
from webhooks_app.models import AuditEntry, Delivery, Problem, Webhook, WebhookHealth
from webhooks_app.operations import replays
from webhooks_app.replays import missed

from ..support.rows import end_deliveries, make_problem
from .conftest import Page, shown_messages, shows, text
from .test_content_security import InlineParts

State = Problem.State


def listed(page: Page, **query: str) -> list[str]:
    return [row.pk for row in page.get("problem", **query).context["cl"].result_list]


def press(page: Page, problem: Problem, verb: str) -> Any:
    return page.post("problem", "act", problem.pk, verb, confirmed="yes", _selected_action=problem.pk)


def test_resolved_and_ignored_problems_are_hidden_until_chosen(superuser: Page, webhook: Webhook) -> None:
    by_state = {state: make_problem(webhook, 500 + place, state=state).pk for place, state in enumerate(State)}

    assert set(listed(superuser)) == {by_state[State.OPEN], by_state[State.ACKNOWLEDGED]}
    assert listed(superuser, state="all") == sorted(by_state.values(), reverse=True)
    assert listed(superuser, state="ignored") == [by_state[State.IGNORED]]


def test_the_health_of_the_webhook_is_beside_each_problem(superuser: Page, webhook: Webhook, new_webhook: Any) -> None:
    """In the same words as on the page of the webhook, with the same number of queries for more problems."""
    since = timezone.now() - timedelta(minutes=5)
    refused = {"refused_since": since, "refused_at": since, "refused_count": 40, "refused": {"500": 40}}
    WebhookHealth.objects.create(webhook=webhook, failing_since=since, **refused)
    problem = make_problem(webhook, 500)
    sentence = "The last 40 requests failed, since"

    with CaptureQueriesContext(connection) as of_one:
        page = superuser.get("problem")
    for _ in range(3):
        make_problem(new_webhook(None), 404)
    with CaptureQueriesContext(connection) as of_four:
        superuser.get("problem")

    for shown in (page, superuser.get("problem", "change", problem.pk), superuser.get("webhook", "change", webhook.pk)):
        assert shows(shown, "Failing")
        assert shows(shown, sentence)
    assert len(of_four) == len(of_one)


def test_a_deleted_webhook_has_no_health(superuser: Page, webhook: Webhook) -> None:
    problem = make_problem(webhook, 500)
    webhook.delete()

    page = superuser.get("problem", "change", problem.pk)

    assert page.status_code == 200
    assert not shows(page, "No requests yet")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"answer": "503"}, {503}),
        ({"answer": "5xx"}, {500, 503}),
        ({"answer": "timeout"}, {0}),
        ({"result": "http_status"}, {404, 500, 503}),
        ({"seen": "hour"}, {404, 503, 0}),
        ({"owner": "amina"}, {500, 503, 0}),
        ({"q": "other.example"}, {404}),
        ({"answer": "nonsense"}, set()),
    ],
    ids=str,
)
def test_filters(
    superuser: Page, webhook: Webhook, new_webhook: Any, query: dict[str, str], expected: set[int]
) -> None:
    make_problem(webhook)
    make_problem(webhook, 503)
    make_problem(webhook, 500, last_seen_at=timezone.now() - timedelta(hours=2))
    make_problem(new_webhook(None, url="https://other.example/hook"), 404)

    found = superuser.get("problem", **query).context["cl"].result_list

    assert {problem.code for problem in found} == expected


def test_the_list_and_the_page_show_the_cause_and_the_count(superuser: Page, webhook: Webhook) -> None:
    problem = make_problem(webhook, 503, count=12345)
    make_problem(webhook)

    shown = superuser.get("problem")
    page = superuser.get("problem", "change", problem.pk)

    assert all(shows(shown, words) for words in ("503 Service Unavailable", "12,345", "timeout", webhook.url, "amina"))
    assert all(shows(page, words) for words in ("503 Service Unavailable", "12,345", "No event was missed"))


@pytest.mark.parametrize(
    ("language", "code", "words"),
    [("en", 503, "503 Service Unavailable"), ("en", 599, "Status 599"), ("de", 0, "Zeitüberschreitung")],
)
def test_the_title_names_the_cause_in_words(
    superuser: Page, webhook: Webhook, language: str, code: int, words: str
) -> None:
    problem = make_problem(webhook, code)
    superuser.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language

    page = superuser.get("problem", "change", problem.pk)

    assert f"<h1>{problem.pk} ({words})</h1>" in text(page)
    assert text(page).count(f"{problem.pk} ({words})</h") == 1


@pytest.mark.parametrize(("code", "by"), [(503, "answer=503"), (0, "result=timeout")])
def test_the_page_leads_to_the_deliveries(superuser: Page, webhook: Webhook, code: int, by: str) -> None:
    problem = make_problem(webhook, code)
    link = reverse("admin:webhooks_app_delivery_changelist")

    page = superuser.get("problem", "change", problem.pk)

    assert shows(page, f"{link}?webhook_id={webhook.pk}&kind=event&{by}")


@pytest.mark.parametrize(
    ("verb", "state"), [("acknowledge", State.ACKNOWLEDGED), ("ignore", State.IGNORED)], ids=["acknowledge", "ignore"]
)
def test_decisions_are_audited_and_undone(superuser: Page, webhook: Webhook, verb: str, state: str) -> None:
    problem = make_problem(webhook)

    press(superuser, problem, verb)
    decided = Problem.objects.get().state
    press(superuser, problem, "reopen")

    assert (decided, Problem.objects.get().state) == (state, State.OPEN)
    entries = AuditEntry.objects.filter(subject=problem.pk)
    assert [(each.actor, each.changes["state"][1]) for each in entries.order_by("pk")] == [
        (superuser.user, state),
        (superuser.user, "open"),
    ]
    assert shows(superuser.get("problem", "history", problem.pk), "problem reopened")


def test_buttons_follow_the_state(superuser: Page, webhook: Webhook) -> None:
    offered = []
    for code, state in enumerate(State, start=500):
        problem = make_problem(webhook, code, state=state)
        buttons = superuser.get("problem", "change", problem.pk).context["page_actions"]
        offered.append([str(button.label) for button in buttons])

    assert offered == [["Acknowledge", "Ignore"], ["Ignore", "Reopen"], ["Acknowledge", "Reopen"], ["Ignore"]]


def test_missed_events_are_recovered_by_a_replay(superuser: Page, webhook: Webhook) -> None:
    problem = make_problem(webhook, missed_from=timezone.now() - timedelta(hours=3))
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    emit("file.deleted", registry.get("file.deleted").example, owner=webhook.owner)
    end_deliveries(state="given_up")

    buttons = superuser.get("problem", "change", problem.pk).context["page_actions"]
    form = superuser.client.get(buttons[-1].url, follow=True)

    assert form.request["PATH_INFO"] == reverse("admin:webhooks_app_replay_add")
    assert form.context["form"].initial["webhook"] == webhook.pk
    assert shows(form, timezone.localtime(problem.missed_from - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%S"))


def test_deliveries_cancelled_with_their_webhook_are_missed(superuser: Page, webhook: Webhook) -> None:
    """The webhook got a new URL, which failed its verification. No delivery was given up."""
    problem = make_problem(webhook, 500)
    for _ in range(20):
        emit("file.deleted", registry.get("file.deleted").example, owner=webhook.owner)
    Delivery.objects.update(last_result="http_status", attempt_count=1)
    webhook.fail("unreachable")
    WebhookHealth.objects.create(webhook=webhook)

    page = superuser.get("problem", "change", problem.pk)
    impact = superuser.get("problem", "impact")

    assert "20 since" in text(page)
    assert [hit.missed for hit in impact.context["hits"]] == [20]
    assert replays.count_missed(webhook).number == 20


def test_events_that_were_not_examined_are_not_called_delivered(
    superuser: Page, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed, "MOST_READ", 4)
    problem = make_problem(webhook, missed_from=timezone.now() - timedelta(hours=3))
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    for state in ("succeeded", "given_up"):
        event = emit("file.deleted", registry.get("file.deleted").example, owner=webhook.owner)
        end_deliveries(event.deliveries.all(), state=state)

    page = superuser.get("problem", "change", problem.pk)

    assert shows(page, "None of the first events was missed.")
    assert str(page.context["page_actions"][-1].label) == "Replay events"


def test_nothing_is_recovered_without_missed_events(superuser: Page, webhook: Webhook) -> None:
    answer = superuser.act("recover", make_problem(webhook))

    assert shown_messages(answer) == ["Select a single problem whose webhook has missed events."]


def test_other_staff_see_and_decide_about_their_own_problems(staff: Any, webhook: Webhook, new_webhook: Any) -> None:
    page = staff("boris", "view_problem", "change_problem")
    own, foreign = make_problem(new_webhook(page.user)), make_problem(webhook)

    press(page, own, "ignore")
    answer = page.post("problem", "act", foreign.pk, "ignore", confirmed="yes")

    assert (answer.status_code, listed(page, state="all")) == (404, [own.pk])
    assert dict(Problem.objects.values_list("pk", "state")) == {own.pk: State.IGNORED, foreign.pk: State.OPEN}


def test_viewers_have_no_buttons(staff: Callable[..., Page], new_webhook: Any) -> None:
    page = staff("boris", "view_problem")
    problem = make_problem(new_webhook(page.user), missed_from=timezone.now())

    shown = page.get("problem", "change", problem.pk)

    assert shown.context["page_actions"] == []
    assert reverse("admin:webhooks_app_delivery_changelist") not in text(shown)
    assert press(page, problem, "ignore").status_code == 403
    assert page.get("problem", "add").status_code == 403


def test_the_search_opens_a_problem(superuser: Page, webhook: Webhook) -> None:
    problem = make_problem(webhook)

    answer = superuser.get("webhook", "search", q=problem.pk[:20])

    assert answer.redirect_chain[0][0] == reverse("admin:webhooks_app_problem_change", args=[problem.pk])


def test_nothing_is_inline(superuser: Page, webhook: Webhook) -> None:
    problem = make_problem(webhook, 503, missed_from=timezone.now())

    for page in (superuser.get("problem"), superuser.get("problem", "change", problem.pk)):
        parts = InlineParts()
        parts.feed(text(page))
        assert parts.found == []
