"""Problems: failed attempts grouped by webhook, result and status code, and their states."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import DEFAULT_DB_ALIAS

from webhooks_app.conf import settings
from webhooks_app.maintenance.jobs import JOBS, fold_tallies
from webhooks_app.maintenance.problems import note_results
from webhooks_app.maintenance.rollups.folding import TalliedWebhook
from webhooks_app.models import Problem, Rollup, Webhook
from webhooks_app.models.problem import MOST_OF_WEBHOOK, SETTLED_AFTER
from webhooks_app.protocol.ids import milliseconds_of, new_id

from ..support.rows import make_webhook
from .rollups.conftest import NOW, make_tally

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
SUCCESS, TIMEOUTS = {"succeeded_at_once": 1}, {"failed_timeout": 2}
REFUSED = {"failed_http_status": 3, "code_503": 3}
State = Problem.State


@pytest.fixture
def webhook() -> Webhook:
    return make_webhook(None)


@pytest.fixture
def seen(webhook: Webhook) -> Callable[..., None]:
    """Fold the results of one batch of the webhook."""

    def seen(counters: dict[str, int], at: datetime = NOW, *, of: Webhook = webhook) -> None:
        make_tally(at, **{of.pk: counters})
        fold_tallies(DEFAULT_DB_ALIAS, at, {})

    return seen


def run(name: str, now: datetime) -> None:
    (job,) = [job for job in JOBS if job.name == name]
    job.run(DEFAULT_DB_ALIAS, now, {})


def test_failures_are_grouped_by_webhook_result_and_code(webhook: Webhook, seen: Callable[..., None]) -> None:
    other = make_webhook(None)
    seen(REFUSED | TIMEOUTS)
    seen({"failed_http_status": 3, "code_503": 1, "code_404": 2}, NOW + MINUTE)
    seen(REFUSED, of=other)

    problems = Problem.objects.filter(webhook=webhook).order_by("result", "code")
    shown = [(each.result, each.code, each.count, each.first_seen_at, each.last_seen_at) for each in problems]

    assert shown == [
        ("http_status", 404, 2, NOW + MINUTE, NOW + MINUTE),
        ("http_status", 503, 4, NOW, NOW + MINUTE),
        ("timeout", 0, 2, NOW, NOW),
    ]
    assert {each.state for each in problems} == {State.OPEN}
    assert other.problems.get().count == 3


def test_failures_without_a_counted_code_have_none(webhook: Webhook, seen: Callable[..., None]) -> None:
    seen({"failed_http_status": 3, "code_503": 1})

    assert dict(Problem.objects.values_list("code", "count")) == {503: 1, 0: 2}


def test_the_codes_are_not_kept_in_roll_ups(webhook: Webhook, seen: Callable[..., None]) -> None:
    seen(REFUSED)

    assert all(row.counts == {"failed_http_status": 3} for row in Rollup.objects.all())


def test_a_receiver_cannot_cause_any_number_of_problems(webhook: Webhook, seen: Callable[..., None]) -> None:
    codes = {f"code_{code}": 1 for code in range(400, 500)}

    seen({"failed_http_status": len(codes), **codes})

    problems = Problem.objects.order_by("code")
    assert [problems.count(), problems[0].code] == [MOST_OF_WEBHOOK + 1, 0]
    assert problems[0].count == len(codes) - MOST_OF_WEBHOOK


@pytest.mark.parametrize("decision", [None, Problem.acknowledge])
def test_a_success_resolves_a_problem_that_is_not_seen_again(seen: Callable[..., None], decision: object) -> None:
    seen(TIMEOUTS)
    if callable(decision):
        decision(Problem.objects.get())
    seen(SUCCESS, NOW + MINUTE)

    run("problems", NOW + MINUTE)
    early = Problem.objects.get().state
    run("problems", NOW + SETTLED_AFTER)

    problem = Problem.objects.get()
    assert early != State.RESOLVED
    assert (problem.state, problem.resolved_at) == (State.RESOLVED, NOW + SETTLED_AFTER)


def test_a_rare_failure_stays_one_acknowledged_problem(seen: Callable[..., None]) -> None:
    seen(TIMEOUTS)
    Problem.objects.get().acknowledge()

    for minute in range(1, 8):
        seen(SUCCESS, NOW + minute * MINUTE)
        seen(SUCCESS | TIMEOUTS, NOW + minute * MINUTE + MINUTE / 2)
        run("problems", NOW + minute * MINUTE + MINUTE / 2)

    problem = Problem.objects.get()
    assert (problem.state, problem.count, problem.opened_at) == (State.ACKNOWLEDGED, 16, NOW)


def test_without_a_success_a_problem_is_not_resolved(seen: Callable[..., None]) -> None:
    seen(SUCCESS | TIMEOUTS)

    run("problems", NOW + timedelta(days=1))

    assert Problem.objects.get().state == State.OPEN


def test_another_failure_opens_a_resolved_problem_again(seen: Callable[..., None]) -> None:
    seen(TIMEOUTS)
    Problem.objects.get().acknowledge()
    seen(SUCCESS, NOW + MINUTE)
    run("problems", NOW + SETTLED_AFTER)

    seen(TIMEOUTS, NOW + timedelta(hours=1))

    problem = Problem.objects.get()
    assert (problem.state, problem.resolved_at, problem.succeeded_at) == (State.OPEN, None, None)
    assert (problem.first_seen_at, problem.opened_at, problem.count) == (NOW, NOW + timedelta(hours=1), 4)


def test_an_ignored_problem_stays_ignored(seen: Callable[..., None]) -> None:
    seen(TIMEOUTS)
    Problem.objects.get().ignore()
    seen(SUCCESS, NOW + MINUTE)
    run("problems", NOW + SETTLED_AFTER)
    seen(TIMEOUTS, NOW + timedelta(hours=1))

    problem = Problem.objects.get()
    assert (problem.state, problem.count) == (State.IGNORED, 4)


def test_the_oldest_event_given_up_is_kept(seen: Callable[..., None]) -> None:
    early, late = (milliseconds_of(new_id("evt", NOW - minutes * MINUTE)) for minutes in (9, 3))
    seen(TIMEOUTS)
    before = Problem.objects.get().missed_from
    seen({**TIMEOUTS, "given_up": 1, "given_up_since_success": 1, "missed_from_ms": early})
    seen({**TIMEOUTS, "given_up": 1, "given_up_since_success": 1, "missed_from_ms": late})

    assert (before, Problem.objects.get().missed_from) == (None, NOW - 9 * MINUTE)


def test_a_webhook_without_problems_costs_one_statement(
    webhook: Webhook, seen: Callable[..., None], django_assert_num_queries: object
) -> None:
    entry = TalliedWebhook(webhook.pk, NOW, SUCCESS, 0)

    with django_assert_num_queries(1):  # type: ignore[operator]
        note_results(DEFAULT_DB_ALIAS, [entry])


def test_the_problems_of_an_unknown_webhook_are_not_kept(webhook: Webhook, seen: Callable[..., None]) -> None:
    make_tally(NOW, **{new_id("wh"): TIMEOUTS, webhook.pk: TIMEOUTS})
    fold_tallies(DEFAULT_DB_ALIAS, NOW, {})

    assert Problem.objects.get().webhook == webhook


def test_problems_are_kept_as_long_as_attempts(webhook: Webhook, seen: Callable[..., None]) -> None:
    kept = timedelta(days=settings.ATTEMPT_RETENTION_DAYS)
    seen(TIMEOUTS)
    seen(REFUSED, NOW + MINUTE)

    run("forget", NOW + kept + MINUTE / 2)

    assert Problem.objects.get().code == 503
