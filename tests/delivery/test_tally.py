"""The counts of a recorded batch."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webhooks_app import send_test_event
from webhooks_app.delivery.recording import record
from webhooks_app.delivery.sending import finish, finish_lost, request_for
from webhooks_app.delivery.sql import sql_for
from webhooks_app.models import Tally
from webhooks_app.transport import ErrorClass, Exchange, Response, TransportError

from ..support.queues import LookingQueue
from ..support.rows import EVENT_TYPE, deliveries, emit_one, make_webhook
from ..support.slots import open_slots

pytestmark = pytest.mark.django_db


@pytest.fixture
def queue(clock):
    return LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=open_slots())


def ended(claim, clock, *, seconds=0.1, status=200, error=None):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    response = None if error else Response(status=status)
    return finish(Exchange(request=request, duration_seconds=seconds, response=response, error=error))


def counted(webhook):
    """Return a webhook's counters without zeros, summed over all tallies, and those after the last success."""
    sums, since_success = Counter(), []
    for tally in Tally.objects.all():
        counters = json.loads(tally.counts)["webhooks"].get(webhook.pk[3:], {})
        since_success.append(counters.pop("given_up_since_success", 0))
        for name, value in counters.items():
            sums[name] += value
    return {name: value for name, value in sums.items() if value}, since_success


def test_a_batch_is_one_row_and_one_statement(alice, queue, clock):
    webhooks = [make_webhook(alice) for _ in range(5)]
    emit_one(alice)
    batch = [ended(claim, clock) for claim in queue.claim(10)]

    with CaptureQueriesContext(connection) as captured:
        record(sql_for("default"), batch, clock())

    inserts = [query for query in captured if Tally._meta.db_table in query["sql"]]
    assert (len(inserts), Tally.objects.count()) == (1, 1)
    assert [counted(webhook)[0]["succeeded_at_once"] for webhook in webhooks] == [1] * 5


def test_an_immediate_success_counts_its_duration_and_delay(alice, webhook, queue, clock):
    emit_one(alice)
    (claim,) = queue.claim(10)

    record(sql_for("default"), [ended(claim, clock, seconds=0.25)], clock())

    sums, since_success = counted(webhook)
    waited = sums.pop("wait_sum")
    assert waited == pytest.approx(60_000, abs=30_000)  # The clock is a minute ahead.
    assert sums == {"succeeded_at_once": 1, "ms_250": 1, "ms_sum": 250, "wait_more": 1}
    assert since_success == [0]


def test_a_given_up_delivery_counts_each_attempt_and_is_listed(alice, queue, clock):
    webhook = make_webhook(alice, retry_notices=False)
    emit_one(alice)
    for number in range(4):
        (claim,) = queue.claim(10)
        error = TransportError(error_class=ErrorClass.DNS_ERROR, message="No.") if number == 3 else None
        record(sql_for("default"), [ended(claim, clock, status=500, error=error)], clock())
        clock.advance(31)

    sums, since_success = counted(webhook)
    assert (sums["given_up"], sums["failed_http_status"], sums["failed_dns_error"]) == (1, 3, 1)
    assert (sums["ms_100"], sum(sums[name] for name in sums if name.startswith("wait_") and name != "wait_sum")) == (
        3,
        1,
    )
    assert since_success == [0, 0, 0, 1]
    assert json.loads(Tally.objects.last().counts)["given_up"] == [deliveries()[0].pk[4:]]


def test_a_success_after_a_failure_counts_as_later(alice, webhook, receiver, deliver):
    emit_one(alice)

    deliver(receiver(500, 200))

    sums, _ = counted(webhook)
    assert (sums["succeeded_later"], sums["failed_http_status"]) == (1, 1)
    assert "succeeded_at_once" not in sums


def test_failures_count_by_the_status_of_their_answer(alice, queue, clock):
    webhook = make_webhook(alice, retry_notices=False)
    emit_one(alice)
    for status in (500, 503):
        (claim,) = queue.claim(10)
        record(sql_for("default"), [ended(claim, clock, status=status)], clock())
        clock.advance(31)

    sums, _ = counted(webhook)
    assert (sums["failed_http_status"], sums["code_500"], sums["code_503"]) == (2, 1, 1)


def test_failures_before_a_success_in_the_batch_do_not_count_after_it(alice, webhook, queue, clock):
    for _ in range(3):
        emit_one(alice)
    claims = queue.claim(10)
    failed = [ended(claim._replace(max_attempts=1), clock, status=500) for claim in claims]

    record(sql_for("default"), [failed[0], ended(claims[1], clock), failed[2]], clock())

    sums, since_success = counted(webhook)
    assert (sums["given_up"], since_success) == (2, [1])


def test_a_lost_attempt_counts_without_a_response_time(alice, webhook, queue, clock):
    emit_one(alice)
    queue.claim(10)
    clock.advance(46)

    record(sql_for("default"), [finish_lost(lost, clock()) for lost in queue.claim(10)], clock())

    sums, _ = counted(webhook)
    assert sums["failed_worker_lost"] == 1
    assert not [name for name in sums if name.startswith("ms_")]


def test_handshakes_tests_and_notices_are_not_counted(alice, webhook, receiver, deliver):
    make_webhook(alice, status="pending")
    send_test_event(webhook, EVENT_TYPE)

    deliver(receiver(500, 200))

    assert deliveries("retry_notice")
    assert not Tally.objects.exists()


def test_unrecorded_results_are_not_counted(alice, webhook, queue, clock):
    emit_one(alice)
    (claim,) = queue.claim(10)
    webhook.deliveries.all().cancel("by hand")

    record(sql_for("default"), [ended(claim, clock)], clock())

    assert not Tally.objects.exists()


@pytest.mark.parametrize(
    ("answers", "result"), [((200,), "succeeded"), ((500,), "http_status"), ((500, 200), "succeeded")]
)
def test_a_delivery_has_the_result_of_its_last_attempt(alice, webhook, receiver, deliver, answers, result):
    emit_one(alice)

    deliver(receiver(*answers))

    assert deliveries()[0].last_result == result


def test_a_delivery_awaiting_its_retry_has_the_last_result(alice, webhook, queue, clock):
    emit_one(alice)
    error = TransportError(error_class=ErrorClass.TIMEOUT, message="No.")

    record(sql_for("default"), [ended(claim, clock, error=error) for claim in queue.claim(10)], clock())

    assert (deliveries()[0].state, deliveries()[0].last_result) == ("pending", "timeout")
