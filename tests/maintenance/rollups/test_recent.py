"""Recent results of each webhook: sums of its roll-ups, and the order of the worst."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone

from webhooks_app.maintenance import jobs
from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.recent import lower_bound, pack, sum_up
from webhooks_app.models import Delivery, MaintenanceJob, RecentResults, Rollup, Webhook, WebhookHealth

from ...support.rows import emit_one, end_deliveries, make_webhook
from .conftest import NOW, make_tally

COUNTED = {"succeeded_at_once": 6, "succeeded_later": 2, "given_up": 2, "failed_timeout": 8, "ms_100": 8, "ms_sum": 640}


def recent_of(webhook: Webhook) -> dict[str, object]:
    return WebhookHealth.objects.get(webhook=webhook).recent


@pytest.mark.parametrize(
    ("part", "whole", "expected"), [(0, 10, 0), (25, 25, 0.8668), (28, 1749, 0.0111), (1, 1, 0.2065), (5, 10, 0.2366)]
)
def test_the_lower_bound_is_that_of_wilsons_score_interval(part: int, whole: int, expected: float) -> None:
    assert lower_bound(part, whole) == pytest.approx(expected, abs=0.0001)


@pytest.mark.django_db
def test_each_span_has_the_sums_of_its_roll_ups() -> None:
    webhook = make_webhook(None)
    for age in (timedelta(minutes=5), timedelta(hours=5), timedelta(days=5), timedelta(days=9)):
        make_tally(NOW - age, **{webhook.pk: COUNTED})
    fold(DEFAULT_DB_ALIAS)

    sum_up(DEFAULT_DB_ALIAS, [webhook.pk], NOW)

    times = {"p50": 75, "p95": 98}
    assert recent_of(webhook) == {
        "hour": {"finished": 10, "given_up": 2, "requests": 16, "failed": 8, "worst": 0.28, **times},
        "day": {"finished": 20, "given_up": 4, "requests": 32, "failed": 16, "worst": 0.3363, **times},
        "week": {"finished": 30, "given_up": 6, "requests": 48, "failed": 24, "worst": 0.3639, **times},
    }


@pytest.mark.django_db
def test_results_leave_the_span_again() -> None:
    webhook = make_webhook(None)
    make_tally(NOW, **{webhook.pk: COUNTED})
    fold(DEFAULT_DB_ALIAS)
    sum_up(DEFAULT_DB_ALIAS, [webhook.pk], NOW)

    sum_up(DEFAULT_DB_ALIAS, [webhook.pk], NOW + timedelta(days=20))

    assert recent_of(webhook) == {}


@pytest.mark.django_db(transaction=True)
def test_a_damaged_roll_up_ends_only_its_own_webhook() -> None:
    damaged, healthy = make_webhook(None), make_webhook(None)
    make_tally(NOW, **{damaged.pk: COUNTED, healthy.pk: COUNTED})
    fold(DEFAULT_DB_ALIAS)
    Rollup.objects.filter(webhook_id=damaged.pk).update(counts={"succeeded_at_once": "x"})
    facts: dict[str, object] = {}

    jobs.sum_up_recent(DEFAULT_DB_ALIAS, NOW, facts)

    assert recent_of(healthy)["day"]
    assert facts["as_of"]


@pytest.mark.django_db
def test_queued_deliveries_are_counted() -> None:
    webhook = make_webhook(None)
    emit_one(None)
    emit_one(None)

    sum_up(DEFAULT_DB_ALIAS, [webhook.pk], NOW)

    assert recent_of(webhook) == {"queued": 2}


@pytest.mark.django_db
def test_other_facts_about_the_health_are_kept() -> None:
    webhook = make_webhook(None)
    make_tally(timezone.now(), **{webhook.pk: {"given_up": 3, "given_up_since_success": 3}})
    (fold_tallies,) = [job for job in JOBS if job.name == "fold"]
    fold_tallies.run(DEFAULT_DB_ALIAS, timezone.now(), {})

    sum_up(DEFAULT_DB_ALIAS, [webhook.pk], timezone.now())

    health = WebhookHealth.objects.get(webhook=webhook)
    assert (health.given_up_count, health.failing_since is None) == (3, False)
    assert health.recent["hour"]["given_up"] == 3


@pytest.mark.django_db
def test_the_job_reads_some_webhooks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WEBHOOKS_AT_A_TIME", 2)
    webhooks = [make_webhook(None) for _ in range(3)]
    make_tally(timezone.now(), **{webhook.pk: COUNTED for webhook in webhooks})
    fold(DEFAULT_DB_ALIAS)
    (job,) = [job for job in JOBS if job.name == "recent"]
    MaintenanceJob.objects.ensure([job.name])

    summed_up = []
    for _ in range(2):
        MaintenanceJob.objects.update(next_run_at=timezone.now() - timedelta(hours=1))
        run_due(DEFAULT_DB_ALIAS, timezone.now, [job])
        summed_up.append(WebhookHealth.objects.exclude(recent={}).count())

    state = MaintenanceJob.objects.get(name=job.name)
    assert summed_up == [2, 3]
    assert (state.error, state.facts["after"], state.facts["as_of"]) == ("", "", state.facts["round"])
    packed = RecentResults.objects.order_by("pk")
    recent = {pk: day for row in packed for pk, day in row.results["day"].items()}
    assert [pk for row in packed for pk in row.results["ids"]] == sorted(webhook.pk for webhook in webhooks)
    assert recent == {webhook.pk: recent_of(webhook)["day"] for webhook in webhooks}


@pytest.mark.django_db
def test_the_rows_of_fewer_webhooks_are_deleted() -> None:
    webhook, facts = make_webhook(None), dict[str, object]()
    for place in range(3):
        pack(DEFAULT_DB_ALIAS, place, [webhook.pk], {})

    jobs.sum_up_recent(DEFAULT_DB_ALIAS, NOW, facts)

    assert [row.results["ids"] for row in RecentResults.objects.all()] == [[webhook.pk]]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("counters", "trouble"),
    [
        ({"succeeded_at_once": 10, "ms_5000": 10}, ""),
        ({"succeeded_at_once": 10, "ms_10000": 10}, "slow"),
        ({"succeeded_at_once": 9, "ms_10000": 9}, ""),
        ({"succeeded_at_once": 9, "failed_timeout": 1}, "partly"),
        ({"succeeded_at_once": 99, "failed_timeout": 1}, "partly"),
        ({"succeeded_at_once": 100, "failed_timeout": 1}, ""),
    ],
)
def test_the_last_hour_shows_a_trouble(counters: dict[str, int], trouble: str) -> None:
    webhook = make_webhook(None)
    make_tally(NOW, **{webhook.pk: counters})
    fold(DEFAULT_DB_ALIAS)

    sum_up(DEFAULT_DB_ALIAS, [webhook.pk], NOW)

    assert WebhookHealth.objects.get(webhook=webhook).trouble == trouble


@pytest.mark.django_db
def test_a_lost_event_is_a_trouble_until_it_is_delivered() -> None:
    webhook, now = make_webhook(None), timezone.now()
    lost = emit_one(None).deliveries.get()
    make_tally(now, **{webhook.pk: {"given_up": 1, "succeeded_at_once": 1000}})
    fold(DEFAULT_DB_ALIAS)
    end_deliveries(state="given_up")

    def summed_up() -> tuple[str, object]:
        sum_up(DEFAULT_DB_ALIAS, [webhook.pk], now)
        health = WebhookHealth.objects.get(webhook=webhook)
        return health.trouble, health.recent.get("missed")

    before = summed_up()
    again = Delivery.objects.queue(event=lost.event, webhook=webhook, redelivery_of=lost)
    end_deliveries(Delivery.objects.filter(pk=again.pk), state="succeeded")

    assert (before, summed_up()) == (("partly", 1), ("", None))
