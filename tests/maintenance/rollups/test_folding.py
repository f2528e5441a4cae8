"""Tallies are folded into roll-ups, and each counts once."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.db.models import Count, Q
from django.test.utils import CaptureQueriesContext

from webhooks_app.delivery.recording import record
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.delivery.sql import sql_for
from webhooks_app.maintenance.rollups.folding import EVER, fold, forget_old
from webhooks_app.models import Delivery, DeliveryAttempt, Rollup, Tally
from webhooks_app.models.rollup import id_of_account
from webhooks_app.protocol.ids import new_id
from webhooks_app.transport import Exchange, Response

from ...delivery.conftest import ManualClock
from ...support.queues import LookingQueue
from ...support.rows import emit_one, make_webhook
from ...support.slots import open_slots
from .conftest import NOW, make_tally, rollups

MINUTE = NOW.replace(second=0)
HOUR = MINUTE.replace(minute=0)
DAY = HOUR.replace(hour=0)


@pytest.mark.django_db
def test_tallies_are_summed_by_minute_hour_and_day(webhook_id):
    make_tally(NOW, **{webhook_id: {"succeeded_at_once": 2, "ms_sum": 30}})
    make_tally(NOW + timedelta(seconds=60), **{webhook_id: {"succeeded_at_once": 1, "given_up": 1}})

    assert fold("default").tallies == 2

    assert rollups(webhook_id) == {
        ("minute", MINUTE): {"succeeded_at_once": 2, "ms_sum": 30},
        ("minute", MINUTE + timedelta(minutes=1)): {"succeeded_at_once": 1, "given_up": 1},
        ("hour", HOUR): {"succeeded_at_once": 3, "given_up": 1, "ms_sum": 30},
        ("day", DAY): {"succeeded_at_once": 3, "given_up": 1, "ms_sum": 30},
    }
    assert not Tally.objects.exists()


@pytest.mark.django_db
def test_there_are_totals_of_all_webhooks_over_all_time(webhook_id, other_id):
    make_tally(NOW, **{webhook_id: {"given_up": 1}, other_id: {"given_up": 2}})

    fold("default")

    assert rollups() == {
        span: {"given_up": 3} for span in [("minute", MINUTE), ("hour", HOUR), ("day", DAY), ("ever", EVER)]
    }


@pytest.mark.django_db
def test_there_are_totals_of_each_account(django_user_model, webhook_id):
    alice, bob = (django_user_model.objects.create_user(name) for name in ("alice", "bob"))
    webhooks = [make_webhook(alice), make_webhook(alice), make_webhook(bob), make_webhook(None)]
    make_tally(NOW, **{webhook.pk: {"given_up": 1} for webhook in webhooks}, **{webhook_id: {"given_up": 1}})

    fold("default")

    spans = [("minute", MINUTE), ("hour", HOUR), ("day", DAY)]
    assert rollups(id_of_account(alice.pk)) == {span: {"given_up": 2} for span in spans}
    assert rollups(id_of_account(bob.pk)) == {span: {"given_up": 1} for span in spans}
    assert Rollup.objects.count() == (5 + 2 + 1) * 3 + 1


@pytest.mark.django_db
def test_later_folds_are_added(webhook_id):
    for _ in range(3):
        make_tally(NOW, **{webhook_id: {"failed_timeout": 1}})
        fold("default")

    assert rollups(webhook_id)[("hour", HOUR)] == {"failed_timeout": 3}
    assert Rollup.objects.count() == 7


@pytest.mark.django_db
def test_a_fold_is_limited_and_starts_with_the_oldest(webhook_id):
    tallies = [make_tally(NOW, **{webhook_id: {"given_up": 1}}) for _ in range(3)]

    assert fold("default", limit=2).tallies == 2

    assert Tally.objects.get() == tallies[2]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("numbers", "folds"),
    [([3, 3, 3], [2, 1]), ([9, 1], [1, 1]), ([0, 0, 0, 0], [4])],
    ids=["together", "one-alone", "none"],
)
def test_a_fold_reports_a_limited_number_of_given_up_deliveries(webhook_id, monkeypatch, numbers, folds):
    monkeypatch.setattr("webhooks_app.maintenance.rollups.folding.GIVEN_UP_AT_A_TIME", 6)
    for number in numbers:
        ids = [new_id("dlv").removeprefix("dlv_") for _ in range(number)]
        make_tally(NOW, given_up=ids, **{webhook_id: {"given_up": number}})
    told = []

    folded = [fold("default", also=lambda each: told.extend(each.given_up)) for _ in folds]

    assert [(each.tallies, each.has_more) for each in folded] == [
        (number, place < len(folds) - 1) for place, number in enumerate(folds)
    ]
    assert len(set(told)) == len(told) == sum(numbers)
    assert not Tally.objects.exists()


@pytest.mark.django_db
def test_the_callback_gets_each_webhook_and_the_given_up_deliveries(webhook_id):
    make_tally(NOW, given_up=["0" * 32], **{webhook_id: {"given_up": 1, "given_up_since_success": 1}})
    heard = []

    fold("default", also=heard.append)

    (folded,) = heard
    assert [(entry.webhook_id, entry.given_up_since_success) for entry in folded.webhooks] == [(webhook_id, 1)]
    assert folded.given_up == ["dlv_" + "0" * 32]


@pytest.mark.django_db
def test_a_failed_fold_counts_nothing_and_loses_nothing(webhook_id):
    make_tally(NOW, **{webhook_id: {"given_up": 1}})

    def fail(folded):
        raise RuntimeError("The process ends here.")

    with pytest.raises(RuntimeError):
        fold("default", also=fail)
    assert (rollups(webhook_id), Tally.objects.count()) == ({}, 1)

    fold("default")
    assert rollups(webhook_id)[("day", DAY)] == {"given_up": 1}


@pytest.mark.django_db
def test_a_fold_has_a_constant_number_of_queries():
    make_tally(NOW, **{new_id("wh"): {"given_up": 1} for _ in range(50)})

    with CaptureQueriesContext(connections["default"]) as captured:
        fold("default")

    statements = [query["sql"].split()[0] for query in captured if Rollup._meta.db_table in query["sql"]]
    assert (statements.count("SELECT"), statements.count("INSERT"), len(statements)) == (1, 1, 2)
    assert Rollup.objects.count() == 50 * 3 + 4


@pytest.mark.django_db
def test_a_fold_without_tallies_counts_nothing():
    assert fold("default").tallies == 0

    assert not Rollup.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_folds_count_each_tally_once(webhook_id, other_id):
    for number in range(60):
        make_tally(NOW, **{[webhook_id, other_id][number % 2]: {"succeeded_at_once": 1}})
    ready = threading.Barrier(2)

    def fold_all():
        try:
            ready.wait()
            while Tally.objects.exists():
                fold("default", limit=5)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=fold_all) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert rollups()[("ever", EVER)] == {"succeeded_at_once": 60}
    assert rollups(webhook_id)[("minute", MINUTE)] == {"succeeded_at_once": 30}


@pytest.mark.django_db
def test_expired_rollups_are_deleted_except_the_total_over_all_time(webhook_id):
    make_tally(NOW, **{webhook_id: {"given_up": 1}})
    fold("default")

    assert forget_old("default", NOW) == 0
    assert forget_old("default", NOW + timedelta(days=3)) == 2
    assert forget_old("default", NOW + timedelta(days=500)) == 4

    assert rollups() == {("ever", EVER): {"given_up": 1}}


@pytest.mark.django_db
def test_the_rollups_equal_a_recount_of_the_attempts(django_user_model):
    alice = django_user_model.objects.create_user("alice")
    webhooks = [make_webhook(alice, retry_notices=False) for _ in range(3)]
    clock = ManualClock()
    queue = LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=open_slots())
    statuses = iter([200, 500, 404, 200, 500] * 100)
    for turn in range(40):
        if turn < 6:
            emit_one(alice)
        claims = queue.claim(5)
        if results := [_answered(claim, clock, next(statuses)) for claim in claims]:
            record(sql_for("default"), results, clock())
            queue.forget(claims)  # otherwise a webhook with 16 attempts has no slot left
        clock.advance(11)
    while fold("default", limit=3).tallies:
        pass

    for webhook in webhooks:
        assert sum_of_days(webhook.pk) == recount(webhook)
    assert not Delivery.objects.pending().exists()


def _answered(claim, clock, status):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    exchange = Exchange(request=request, duration_seconds=0.04, response=Response(status=status))
    return finish(exchange)


def sum_of_days(webhook_id):
    days = [counters for (resolution, _), counters in rollups(webhook_id).items() if resolution == "day"]
    names = {name for day in days for name in day if not name.startswith("wait_")}
    return {name: sum(day.get(name, 0) for day in days) for name in names}


def recount(webhook):
    attempts = DeliveryAttempt.objects.filter(delivery__webhook=webhook)
    succeeded = Q(result="succeeded")
    counts = attempts.aggregate(
        succeeded_at_once=Count("pk", filter=succeeded & Q(number=1)),
        succeeded_later=Count("pk", filter=succeeded & Q(number__gt=1)),
        failed_http_status=Count("pk", filter=Q(result="http_status")),
        ms_50=Count("pk", filter=Q(duration_ms__lte=50)),
    )
    counts["ms_sum"] = 40 * attempts.count()
    counts["given_up"] = webhook.deliveries.filter(state="given_up").count()
    return {name: number for name, number in counts.items() if number}
