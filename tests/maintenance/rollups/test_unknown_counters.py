"""Counters without columns: new results, outcomes and buckets are counted, and those of other versions preserved."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import models
from django.utils import timezone

from demo_data.rebuild import rebuild
from webhooks_app.delivery.recording import record
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.delivery.sql import sql_for
from webhooks_app.maintenance.rollups.folding import fold, start_of
from webhooks_app.maintenance.rollups.reading import Counters, Window, each, ever, series, total
from webhooks_app.metrics.collector import WebhooksCollector
from webhooks_app.models import DeliveryAttempt, Rollup
from webhooks_app.pages import charts
from webhooks_app.transport import Exchange, Response

from ...delivery.conftest import ManualClock
from ...support.queues import LookingQueue
from ...support.rows import emit_one, make_webhook
from ...support.slots import open_slots
from .conftest import NOW, make_tally, rollups

pytestmark = pytest.mark.django_db

HOUR = NOW.replace(minute=0, second=0)


def scraped():
    """Return the values of the metrics by name and label."""
    samples = [sample for metric in WebhooksCollector().collect() for sample in metric.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


@pytest.fixture
def new_result(monkeypatch):
    """Add a result to those of attempts."""
    members = [(member.name, (member.value, member.label)) for member in DeliveryAttempt.Result]
    members.append(("QUOTA_EXCEEDED", ("quota_exceeded", "quota exceeded")))
    monkeypatch.setattr(DeliveryAttempt, "Result", models.TextChoices("Result", members))
    return DeliveryAttempt.Result.QUOTA_EXCEEDED


@pytest.fixture
def webhook(django_user_model):
    return make_webhook(django_user_model.objects.create_user("alice"), retry_notices=False)


@pytest.fixture
def deliver_badly(webhook):
    """Give up a delivery whose only attempt ends with this result."""

    def deliver(result):
        emit_one(webhook.owner)
        clock = ManualClock()
        clock.now = timezone.now()
        (claim,) = LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=open_slots()).claim(1)
        claim = claim._replace(max_attempts=1)
        request = request_for(claim, now=clock(), timeout_seconds=30)
        exchange = Exchange(request=request, duration_seconds=0.2, response=Response(status=429))
        finished = finish(exchange)
        record(sql_for("default"), [finished._replace(attempt=finished.attempt._replace(result=result))], clock())

    return deliver


def test_a_new_result_is_tallied_folded_read_and_charted(webhook, new_result, deliver_badly):
    assert scraped()["webhooks_attempts_failed_total", "quota_exceeded"] == 0
    deliver_badly(new_result)
    for _ in range(2):
        counters = total(Window.HOUR, [webhook.pk])
        assert (counters.failures, counters.given_up, counters.attempts) == ({"quota_exceeded": 1}, 1, 1)
        fold("default")

    chart = charts.shown(series(Window.HOUR), Window.HOUR, lambda **query: "")

    assert [(step.given_up, step.p95_ms) for step in chart["steps"] if step.given_up] == [(1, "243")]
    assert [shape.name for shape in chart["shapes"]] == ["given_up"]
    assert scraped()["webhooks_attempts_failed_total", "quota_exceeded"] == 1


def test_an_unknown_result_breaks_nothing(deliver_badly):
    deliver_badly("of_a_newer_version")

    fold("default")

    assert ever().failures == {"of_a_newer_version": 1}
    assert scraped()["webhooks_attempts_failed_total", "of_a_newer_version"] == 1


def test_an_unknown_result_is_recounted(webhook, deliver_badly):
    deliver_badly("of_a_newer_version")
    fold("default")
    before = total(Window.DAY, [webhook.pk])

    rebuild("default", timezone.now() - timedelta(hours=1), timezone.now())

    assert total(Window.DAY, [webhook.pk]).failures == before.failures == {"of_a_newer_version": 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["newer-last", "older-last"])
@pytest.mark.parametrize("folds", [0, 1, 2], ids=["live", "half-folded", "folded"])
def test_counters_of_older_and_newer_processes_are_summed(webhook_id, other_id, order, folds):
    older = {"succeeded_at_once": 2, "failed_timeout": 1, "ms_1000": 3}
    newer = {"succeeded_at_once": 1, "failed_timeout": 2, "failed_quota_exceeded": 4, "ms_750": 5, "expired": 6}
    for place in order:
        counted = (older, newer)[place]
        make_tally(NOW, **{webhook_id: counted, other_id: counted})
    for _ in range(folds):
        fold("default", limit=1)

    expected = {"succeeded_at_once": 3, "failed_timeout": 3, "ms_1000": 3, **newer} | {
        "succeeded_at_once": 3,
        "failed_timeout": 3,
    }
    twice = {name: 2 * number for name, number in expected.items()}
    assert total(Window.DAY, [webhook_id], now=NOW).numbers == expected
    assert each(Window.DAY, [other_id], now=NOW)[other_id].total.numbers == expected
    assert total(Window.DAY, [webhook_id, other_id], now=NOW).numbers == twice
    assert total(Window.DAY, now=NOW).numbers == ever().numbers == twice
    if folds == 2:
        assert rollups(webhook_id)["hour", HOUR] == expected


def test_a_missing_counter_is_0(webhook_id):
    Rollup.objects.create(webhook_id=webhook_id, resolution="hour", start=HOUR, counts={"given_up": 1}, given_up=1)

    counters = total(Window.DAY, [webhook_id], now=NOW)

    assert (counters["succeeded_later"], counters["failed_timeout"], counters.given_up) == (0, 0, 1)


def test_the_column_for_ordering_equals_the_counter_of_a_webhook(webhook_id):
    for given_up in (1, 0, 2):
        make_tally(NOW, **{webhook_id: {"given_up": given_up, "failed_timeout": 5}})
        fold("default")

    own, others = Rollup.objects.filter(webhook_id=webhook_id), Rollup.objects.exclude(webhook_id=webhook_id)
    assert {(row.given_up, row.counts["given_up"]) for row in own} == {(3, 3)}
    assert {(row.given_up, row.counts["given_up"]) for row in others} == {(0, 3)}


def test_measurements_with_other_bounds_are_included():
    counters = Counters({"ms_500": 90, "ms_750": 10, "ms_sum": 30_000})

    measured = counters.response_times

    assert (measured.count, measured.sum_ms) == (100, 30_000)
    assert measured.percentile(0.95) == 500 + 250 / 2


def test_changed_buckets_need_no_other_change(monkeypatch, webhook_id):
    make_tally(NOW, **{webhook_id: {"ms_250": 2, "ms_sum": 300}})
    fold("default")
    monkeypatch.setattr("webhooks_app.maintenance.rollups.reading.BUCKETS_MS", (100, 400))
    make_tally(NOW, **{webhook_id: {"ms_400": 2, "ms_sum": 700}})
    fold("default")

    measured = total(Window.DAY, [webhook_id], now=NOW).response_times

    assert (measured.bounds, measured.buckets, measured.sum_ms) == ([100, 250, 400], [0, 2, 2, 0], 1000)
    samples = scraped()
    assert [samples["webhooks_attempt_seconds_bucket", bound] for bound in ("0.1", "0.25", "0.4", "+Inf")] == [
        0,
        2,
        4,
        4,
    ]


def test_a_recount_removes_counters_absent_from_the_log(webhook_id):
    hour = start_of("hour", timezone.now()) - timedelta(hours=2)
    make_tally(hour, **{webhook_id: {"expired": 7}})
    fold("default")

    rebuild("default", hour, hour + timedelta(hours=1))

    assert rollups(webhook_id) == {}
    assert ever().numbers == {}
