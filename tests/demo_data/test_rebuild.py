"""Recalculation of roll-ups from the attempt log."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from demo_data.rebuild import rebuild
from webhooks_app.maintenance.rollups.folding import EVER, fold, start_of
from webhooks_app.maintenance.rollups.reading import ever
from webhooks_app.models import Delivery, DeliveryAttempt, Rollup
from webhooks_app.models.rollup import EVERY_WEBHOOK, id_of_account

from ..maintenance.rollups.conftest import make_tally, rollups
from ..support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db


@pytest.fixture
def webhook(django_user_model):
    return make_webhook(django_user_model.objects.create_user("alice"))


def make_delivery(webhook, created_at, *attempts, state="succeeded"):
    """Create a delivery and its attempts, one minute apart, from results, statuses and durations in ms."""
    delivery = webhook.deliveries.get(event=emit_one(webhook.owner))
    Delivery.objects.filter(pk=delivery.pk).update(created_at=created_at, state=state, attempt_count=len(attempts))
    for number, (result, status, duration_ms) in enumerate(attempts, 1):
        started_at = created_at + timedelta(milliseconds=20) + timedelta(minutes=number - 1)
        DeliveryAttempt.objects.create(
            delivery=delivery,
            number=number,
            result=result,
            response_status=status,
            duration_ms=duration_ms,
            started_at=started_at,
        )


OK, NO, LOST = ("succeeded", 200, 40), ("http_status", 500, 700), ("timeout", None, 30_000)


def test_the_log_is_counted_by_minute_hour_and_day(webhook):
    now = timezone.now()
    hour = start_of("hour", now) - timedelta(hours=2)
    make_delivery(webhook, hour, OK)
    make_delivery(webhook, hour, NO, LOST, OK)
    make_delivery(webhook, hour + timedelta(minutes=59), NO, LOST, state="given_up")

    rebuild("default", hour, hour + timedelta(hours=2))

    found = rollups(webhook.pk)
    day = sum_up(counters for (resolution, _), counters in found.items() if resolution == "day")
    assert day == {
        "succeeded_at_once": 1,
        "succeeded_later": 1,
        "given_up": 1,
        "failed_http_status": 2,
        "failed_timeout": 2,
        "ms_50": 2,
        "ms_1000": 2,
        "ms_sum": 2 * 40 + 2 * 700,
        "wait_25": 3,
        "wait_sum": 60,
    }
    assert found["hour", hour]["failed_timeout"] == 1
    assert found["minute", hour + timedelta(minutes=60)] == {"given_up": 1, "failed_timeout": 1}
    for resolution in ("minute", "hour"):
        assert sum_up(counters for (of, _), counters in found.items() if of == resolution) == day
    assert rollups(EVERY_WEBHOOK)["ever", EVER] == day
    assert rollups(id_of_account(webhook.owner.pk)) == found


def sum_up(several):
    sums = {}
    for counters in several:
        for name, number in counters.items():
            sums[name] = sums.get(name, 0) + number
    return sums


def test_wrong_counts_in_the_range_are_replaced_and_others_remain(webhook):
    hour = start_of("hour", timezone.now()) - timedelta(hours=3)
    make_tally(hour, **{webhook.pk: {"given_up": 7}})
    make_tally(hour - timedelta(days=1), **{webhook.pk: {"given_up": 1}})
    fold("default")
    make_delivery(webhook, hour, OK)

    for _ in range(2):
        rebuild("default", hour, hour + timedelta(hours=1))

    assert rollups(webhook.pk)["hour", hour]["succeeded_at_once"] == 1
    assert "given_up" not in rollups(webhook.pk)["hour", hour]
    assert (ever().given_up, ever().succeeded) == (1, 1)
    days = Rollup.objects.filter(webhook_id=webhook.pk, resolution="day")
    assert {name: sum(day.counts.get(name, 0) for day in days) for name in ("given_up", "succeeded_at_once")} == {
        "given_up": 1,
        "succeeded_at_once": 1,
    }


def test_old_days_have_no_minutes(webhook):
    hour = start_of("hour", timezone.now()) - timedelta(days=10)
    make_delivery(webhook, hour, OK)
    ends = []

    rebuild("default", hour, hour + timedelta(days=2), progress=ends.append)

    assert {resolution for resolution, _ in rollups(webhook.pk)} == {"hour", "day"}
    assert ends[-1] == hour + timedelta(days=2)


def test_tests_and_handshakes_are_not_counted(webhook):
    hour = start_of("hour", timezone.now()) - timedelta(hours=1)
    make_delivery(webhook, hour, OK)
    Delivery.objects.update(kind="test")

    rebuild("default", hour, hour + timedelta(hours=1))

    assert rollups(webhook.pk) == {}


@pytest.mark.parametrize(("since", "until"), [(-40, -1), (-1, 2)], ids=["pruned", "future"])
def test_a_range_outside_the_retention_is_refused(since, until):
    now = timezone.now()

    with pytest.raises(ValueError, match=r"kept for 30 days|in the future"):
        rebuild("default", now + timedelta(days=since), now + timedelta(days=until))


@pytest.mark.parametrize(
    ("duration_ms", "bucket"),
    [(0, "ms_10"), (10, "ms_10"), (11, "ms_25"), (30_000, "ms_30000"), (30_001, "ms_more")],
)
def test_a_duration_counts_in_the_bucket_of_the_next_bound(webhook, duration_ms, bucket):
    hour = start_of("hour", timezone.now()) - timedelta(hours=1)
    make_delivery(webhook, hour, ("succeeded", 200, duration_ms))

    rebuild("default", hour, hour + timedelta(hours=1))

    counted = {"succeeded_at_once": 1, bucket: 1, "ms_sum": duration_ms, "wait_25": 1, "wait_sum": 20}
    assert rollups(webhook.pk)["hour", hour] == {name: number for name, number in counted.items() if number}
