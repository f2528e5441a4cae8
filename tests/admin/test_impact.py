"""The page of the accounts that failures have hit: period, cause, permissions and the number of rows read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from webhooks_app import emit, registry
from webhooks_app.admin import impact
from webhooks_app.admin.actions import CONFIRMED
from webhooks_app.maintenance.rollups.folding import start_of
from webhooks_app.models import Delivery, DeliveryAttempt, Event, Problem, Replay, Rollup, Webhook, WebhookHealth
from webhooks_app.protocol.ids import first_id_at
from webhooks_app.replays import missed

from ..support.rows import make_problem
from .conftest import Page, shows, text
from .test_content_security import InlineParts
from .test_plans import rows_read


def hits(page: Page, **query: str) -> list[tuple[str, int, int]]:
    found = page.get("problem", "impact", **query).context["hits"]
    return [(hit.name, len(hit.webhooks), hit.given_up) for hit in found]


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


def test_any_interval_can_be_entered(superuser: Page, failures: Webhook) -> None:
    began_at = timezone.now() - timedelta(days=3)
    Problem.objects.filter(code=503).update(first_seen_at=began_at, last_seen_at=began_at + timedelta(hours=1))
    make_rollups = {"resolution": "hour", "start": start_of("hour", began_at), "counts": {"given_up": 9}, "given_up": 9}
    Rollup.objects.create(webhook_id=failures.pk, **make_rollups)

    def between(since: datetime, until: datetime) -> list[tuple[str, int, int]]:
        limits = {"seen_after": since, "seen_before": until}
        return hits(superuser, **{name: f"{timezone.localtime(at):%Y-%m-%dT%H:%M:%S}" for name, at in limits.items()})

    assert between(began_at, began_at + timedelta(hours=2)) == [("amina", 1, 9)]
    assert between(began_at - timedelta(hours=4), began_at - timedelta(hours=2)) == []
    backwards = superuser.get("problem", "impact", seen_after="2026-01-02T00:00:00", seen_before="2026-01-01T00:00:00")
    assert shows(backwards, "The end of the period must be later than its beginning.")


def test_the_accounts_of_the_last_hour_are_one_step_from_the_overview(superuser: Page, failures: Webhook) -> None:
    link = reverse("admin:webhooks_app_problem_impact")

    overview = superuser.client.get(reverse("admin:app_list", args=["webhooks_app"]))
    page = superuser.client.get(link)

    assert link in text(overview)
    assert all(shows(page, words) for words in ("amina", failures.url))


def test_an_account_leads_to_its_problems(superuser: Page, failures: Webhook) -> None:
    (hit,) = superuser.get("problem", "impact", answer="5xx").context["hits"]

    listed = superuser.client.get(hit.url).context["cl"].result_list

    assert [problem.code for problem in listed] == [503]


def test_the_platform_leads_to_its_own_problems(superuser: Page, failures: Webhook) -> None:
    found = superuser.get("problem", "impact", window="day").context["hits"]

    listed = [superuser.client.get(hit.url) for hit in found]

    assert [hit.name for hit in found] == ["amina", "the platform"]
    assert [sorted(problem.code for problem in page.context["cl"].result_list) for page in listed] == [[0, 503], [404]]
    assert shows(listed[1], "the platform")


def test_the_key_of_an_account_is_not_taken_for_another_one_s_name(superuser: Page, failures: Webhook) -> None:
    owner = failures.owner
    type(owner).objects.create_user(str(owner.pk))

    (hit,) = superuser.get("problem", "impact").context["hits"]

    assert {problem.webhook for problem in superuser.client.get(hit.url).context["cl"].result_list} == {failures}


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
    assert (len(asked) <= 5, "LIMIT 1" in asked[0]) == (True, True)


def test_nothing_is_inline(superuser: Page, failures: Webhook) -> None:
    parts = InlineParts()
    parts.feed(text(superuser.get("problem", "impact")))

    assert parts.found == []


def test_one_button_sends_what_all_have_missed(superuser: Page, failures: Webhook) -> None:
    event_type = registry.get(failures.event_types[0])
    emit(event_type.name, event_type.example, owner=failures.owner).deliveries.all().delete()
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


# Missed events


@pytest.fixture
def give_up(webhook: Webhook) -> Callable[..., Delivery]:
    """Create a delivery that was given up a moment ago, after an answer with this status code or a timeout."""
    numbers = count(1)

    def give_up(code: int = 0, to: Webhook = webhook, *, ago: timedelta = timedelta(), **fields: Any) -> Delivery:
        at, result = timezone.now() - ago, "http_status" if code else "timeout"
        if "event" not in fields:
            fields["event"] = Event.objects.create(type="file.deleted", owner=to.owner, created_at=at)
        delivery: Delivery = Delivery.objects.create(
            id=first_id_at("dlv", timezone.now() - timedelta(days=1) + next(numbers) * timedelta(seconds=1)),
            webhook=to,
            **{"state": "given_up", "finished_at": at, "last_result": result, "attempt_count": 1, **fields},
        )
        facts = {"url": to.url, "result": result, "response_status": code or None}
        DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=at, **facts)
        return delivery

    return give_up


def rows(page: Page, name: str, **query: str) -> dict[str, tuple[int, int, int, bool]]:
    found = page.get("problem", "impact", **query).context[name]
    return {hit.name: (len(hit.accounts), len(hit.webhooks), hit.missed, hit.has_more) for hit in found}


def test_missed_events_are_counted_by_cause_and_by_account(
    superuser: Page, webhook: Webhook, new_webhook: Any, give_up: Callable[..., Delivery]
) -> None:
    other = new_webhook(None)
    for each, code in ((webhook, 503), (other, 503), (other, 0)):
        make_problem(each, code)
    events = [give_up(503), give_up(503), give_up(503, other), give_up(0, other)]

    page = superuser.get("problem", "impact")

    assert rows(superuser, "causes") == {"503 Service Unavailable": (2, 2, 3, False), "timeout": (1, 1, 1, False)}
    assert rows(superuser, "hits") == {"amina": (1, 1, 2, False), "the platform": (1, 1, 2, False)}
    assert rows(superuser, "hits", answer="503") == {"amina": (1, 1, 2, False), "the platform": (1, 1, 1, False)}
    assert f"Events missed: <strong>{len(events)}</strong>" in re.sub(r"\s+(?=</strong>)", "", text(page))
    (timeout,) = [hit for hit in page.context["causes"] if hit.name == "timeout"]
    followed = superuser.client.get(reverse("admin:webhooks_app_problem_impact") + timeout.url)
    assert [hit.name for hit in followed.context["hits"]] == ["the platform"]


@pytest.mark.parametrize(
    ("later", "missed"),
    [("succeeded", 0), ("pending", 0), ("cancelled", 1), ("given_up", 1)],
)
def test_an_event_that_is_sent_again_is_not_missed(
    superuser: Page, webhook: Webhook, give_up: Callable[..., Delivery], later: str, missed: int
) -> None:
    make_problem(webhook, 503)
    first = give_up(503)
    give_up(503, event=first.event, redelivery_of=first, state=later)

    assert rows(superuser, "causes") == {"503 Service Unavailable": (1, 1, missed, False)}


def test_only_events_of_the_period_are_counted(
    superuser: Page, webhook: Webhook, give_up: Callable[..., Delivery]
) -> None:
    make_problem(webhook, 503)
    give_up(503, ago=timedelta(hours=3))
    give_up(503, kind="test")
    give_up(503)

    causes = {window: rows(superuser, "causes", window=window) for window in ("hour", "day")}
    found = {window: shown["503 Service Unavailable"][2] for window, shown in causes.items()}

    assert found == {"hour": 1, "day": 2}


def test_the_latest_events_of_each_webhook_are_counted(
    superuser: Page, webhook: Webhook, new_webhook: Any, give_up: Callable[..., Delivery], monkeypatch: Any
) -> None:
    monkeypatch.setattr(missed, "MOST_GIVEN_UP", 8)
    other = new_webhook(None)
    for each in (webhook, other):
        make_problem(each, 503)
    for _ in range(12):
        give_up(503)
    give_up(503, other)

    found = rows(superuser, "hits")

    # The second webhook leaves its share to the first one.
    assert found == {"amina": (1, 1, 7, True), "the platform": (1, 1, 1, False)}
    assert shows(superuser.get("problem", "impact"), "at least 8")


def test_events_that_were_retried_for_long_are_counted(
    superuser: Page, webhook: Webhook, new_webhook: Any, give_up: Callable[..., Delivery], monkeypatch: Any
) -> None:
    monkeypatch.setattr(missed, "MOST_GIVEN_UP", 4)
    for each in (webhook, new_webhook(None)):
        make_problem(each, 503)
    give_up(503)
    for _ in range(2):
        give_up(503, ago=timedelta(hours=3))
    for _ in range(3):
        give_up(503, kind="notice")

    assert rows(superuser, "hits") == {"amina": (1, 1, 1, False), "the platform": (1, 1, 0, False)}


def test_a_number_that_was_not_read_is_not_called_zero(
    superuser: Page, webhook: Webhook, new_webhook: Any, give_up: Callable[..., Delivery], monkeypatch: Any
) -> None:
    monkeypatch.setattr(missed, "MAX_RANGES", 1)
    WebhookHealth.objects.create(webhook=webhook, recent={"hour": {"given_up": 1}})
    for each in (webhook, new_webhook(None)):
        make_problem(each, 503)
    give_up(503)

    page = superuser.get("problem", "impact")

    assert rows(superuser, "hits") == {"amina": (1, 1, 1, False), "the platform": (1, 1, 0, True)}
    assert shows(page, "at least 1")
    assert not shows(page, "at least 0")
    assert text(page).count("\N{EN DASH}\n</td>") == 1


def test_the_cause_of_an_unverified_url_is_not_counted_for_its_owner(
    staff: Callable[..., Page], superuser: Page, new_webhook: Any, give_up: Callable[..., Delivery]
) -> None:
    page = staff("boris", "view_problem")
    own = new_webhook(page.user)
    make_problem(own)
    give_up(0, own, is_masked=True)

    assert [rows(each, "causes")["timeout"][2] for each in (page, superuser)] == [0, 1]


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables")
@pytest.mark.parametrize("webhooks", [1, 40, 1500])
def test_the_page_reads_at_most_10_000_rows(superuser: Page, webhooks: int) -> None:
    at = timezone.now()
    owner = superuser.user
    made = Webhook.objects.bulk_create(
        Webhook(url=f"https://{each}.example/", status="active", owner=owner) for each in range(webhooks)
    )
    seen = {"first_seen_at": at, "last_seen_at": at, "opened_at": at}
    Problem.objects.bulk_create(Problem(webhook=each, result="http_status", code=503, **seen) for each in made)
    WebhookHealth.objects.bulk_create(WebhookHealth(webhook=each) for each in made)
    event = Event.objects.create(type="file.deleted", owner=owner, created_at=at)
    ended = {"state": "given_up", "finished_at": at, "last_result": "http_status", "attempt_count": 1}
    older = [first_id_at("dlv", at - timedelta(days=1) + each * timedelta(seconds=1)) for each in range(20_000)]
    Delivery.objects.bulk_create(
        (
            Delivery(id=pk, event=event, webhook=made[each % webhooks], state="succeeded")
            for each, pk in enumerate(older)
        ),
        batch_size=5000,
    )
    deliveries = Delivery.objects.bulk_create(
        Delivery(event=event, webhook=made[each % webhooks], **ended) for each in range(3000)
    )
    facts = {
        "number": 1,
        "started_at": at,
        "result": "http_status",
        "response_status": 503,
        "url": "https://a.example/",
    }
    DeliveryAttempt.objects.bulk_create(DeliveryAttempt(delivery=each, **facts) for each in deliveries)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")  # as in a large table

    with CaptureQueriesContext(connection) as captured:
        assert superuser.get("problem", "impact").status_code == 200

    read = [(rows_read(each["sql"]), each["sql"]) for each in captured if "webhooks_app_" in each["sql"]]
    assert sum(number for number, _sql in read) <= 10_000, max(read)
