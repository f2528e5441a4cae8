"""The order of locks: sessions that change the same deliveries wait for each other, and never deadlock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import F

from webhooks_app import emit, registry
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.delivery.worker import DeliveryWorker
from webhooks_app.models import Delivery, QueueEntry, QueueLane, Webhook
from webhooks_app.transport import Exchange, Response

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from ..support.waiting import wait_until
from .conftest import recorded

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_on("postgresql", "mariadb")]


BLOCKED_SQL = {
    "postgresql": "SELECT EXISTS (SELECT FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))",
    "mysql": """
        SELECT EXISTS (
            SELECT 1 FROM information_schema.innodb_lock_waits AS waits
            JOIN information_schema.innodb_trx AS blocking ON blocking.trx_id = waits.blocking_trx_id
            WHERE blocking.trx_mysql_thread_id = CONNECTION_ID()
        )""",
}
"""Whether another session waits for this one."""


def is_blocking() -> bool:
    time.sleep(0.15)  # InnoDB renews its tables only for reads at least 0.1 s apart
    with connection.cursor() as cursor:
        cursor.execute(BLOCKED_SQL[connection.vendor])
        return bool(cursor.fetchone()[0])


@pytest.fixture
def beside() -> Iterator[Callable[[Callable[[], Any]], Future[Any]]]:
    """Run a function in another session. Return when it has ended, or waits for a lock of this one."""

    def run(function: Callable[[], Any]) -> Any:
        try:
            return function()
        finally:
            connection.close()

    def start(function: Callable[[], Any]) -> Future[Any]:
        future = threads.submit(run, function)
        wait_until(lambda: future.done() or is_blocking())
        return future

    with ThreadPoolExecutor(1) as threads:
        yield start


@pytest.fixture
def claims(alice, webhook, queue):
    """Two claims, in the order of their deliveries."""
    emit_one(alice)
    emit_one(alice)
    return sorted(queue.claim(10), key=lambda claim: claim.delivery_id)


def answered(claim, clock, status):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    return finish(Exchange(request=request, duration_seconds=0.1, response=Response(status=status)))


def is_free(delivery_id):
    return QueueEntry.objects.filter(pk=delivery_id).select_for_update(skip_locked=True).exists()


@pytest.mark.parametrize("statuses", [(200, 200), (500, 500), (500, 200)], ids=["final", "retried", "both"])
def test_results_are_recorded_in_the_order_of_their_deliveries(claims, queue, clock, beside, statuses):
    first, second = claims
    finished = [answered(claim, clock, status) for claim, status in zip((second, first), statuses, strict=True)]

    with transaction.atomic():
        QueueEntry.objects.lock([first.delivery_id])
        recording = beside(lambda: recorded(queue, finished, clock()))
        assert not recording.done()
        assert is_free(second.delivery_id)

    assert len(recording.result()) == 2


@pytest.mark.only_on("postgresql")
def test_a_late_result_does_not_lock_a_delivery_that_others_may_claim(claims, queue, clock, beside):
    late, current = claims
    queue.release([late])

    with transaction.atomic():
        QueueEntry.objects.lock([late.delivery_id])
        finished = [answered(late, clock, 500), answered(current, clock, 200)]
        valid = beside(lambda: recorded(queue, finished, clock())).result(timeout=20)

    assert [item.claim for item in valid] == [current]


def test_a_lost_claim_is_not_claimed_while_its_result_is_recorded(claims, other_queue, clock, beside):
    first, second = claims
    clock.advance(46)

    with transaction.atomic():
        QueueEntry.objects.lock([first.delivery_id])
        (lost,) = beside(lambda: other_queue.claim(10)).result(timeout=60)

    assert (lost.is_lost, lost.delivery_id) == (True, second.delivery_id)
    assert [claim.delivery_id for claim in other_queue.claim(10)] == [first.delivery_id]


def test_a_webhook_is_skipped_during_a_cancellation(alice, webhook, queue, beside):
    cancelled, other = emit_one(alice), emit_one(alice)
    QueueLane.objects.ensure([webhook.pk])

    with transaction.atomic():
        Delivery.objects.filter(event=cancelled).waiting().cancel("by hand")
        assert beside(lambda: queue.claim(10)).result(timeout=60) == []

    assert [claim.event_id for claim in queue.claim(10)] == [other.pk]


def test_all_lanes_are_locked_before_deliveries_are_cancelled(alice, beside, monkeypatch):
    monkeypatch.setattr("webhooks_app.models.queue_entry.ENTRIES_AT_A_TIME", 1)
    webhooks = [make_webhook(alice, order="webhook") for _ in range(2)]
    emit_one(alice)
    QueueLane.objects.ensure([webhook.pk for webhook in webhooks])
    first, second = QueueEntry.objects.order_by("pk")

    with transaction.atomic():
        QueueLane.objects.lock([second.webhook_id])
        cancelling = beside(lambda: Delivery.objects.all().cancel("by hand"))
        assert not cancelling.done()
        assert is_free(first.pk)

    assert cancelling.result() == 2


def test_a_change_of_the_order_locks_claims_in_the_order_of_recording(alice, queue, beside):
    webhook = make_webhook(alice, order="key")
    for key in "ab":
        emit(EVENT_TYPE, {"error": "No outline"}, owner=alice, ordering_key=key)
    first, second = sorted(claim.delivery_id for claim in queue.claim(10))
    earlier = {"due_at": F("due_at") - timedelta(hours=1), "place": F("place") - 1000, "order_key": "0"}
    QueueEntry.objects.filter(pk=second).update(**earlier)  # first in both indexes
    QueueEntry.objects.filter(pk=first).update(attempt=1)  # last in the table
    webhook.order = "webhook"

    with transaction.atomic():
        QueueEntry.objects.lock([first])
        changing = beside(lambda: transaction.atomic()(QueueEntry.objects.sort_again)(webhook))
        assert not changing.done()
        assert is_free(second)

    changing.result()
    assert set(QueueEntry.objects.values_list("order_key", flat=True)) == {""}


def test_a_failed_handshake_locks_the_lane_before_its_delivery(alice, queue, clock, beside):
    webhook = make_webhook(alice, status="pending")
    Delivery.objects.update(max_attempts=1)
    QueueEntry.objects.update(max_attempts=1)
    (claim,) = queue.claim(10)

    with transaction.atomic():
        QueueLane.objects.lock([webhook.pk])
        recording = beside(lambda: recorded(queue, [answered(claim, clock, 500)], clock()))
        assert not recording.done()
        assert is_free(claim.delivery_id)

    assert len(recording.result()) == 1
    webhook.refresh_from_db()
    assert webhook.status == "failed"


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@pytest.mark.django_db
def test_a_missing_lane_is_inserted_when_it_is_locked(webhook):
    with transaction.atomic():
        QueueLane.objects.lock([webhook.pk])

    assert QueueLane.objects.filter(pk=webhook.pk).exists()


def test_others_are_claimed_while_a_page_of_a_stopped_webhook_is_cancelled(alice, queue, other_queue, beside):
    stopped, other = make_webhook(alice, "file.deleted"), make_webhook(alice)
    emit("file.deleted", registry.get("file.deleted").example, owner=alice)
    event = emit_one(alice)
    Webhook.objects.filter(pk=stopped.pk).update(status="disabled")
    stopped.refresh_from_db()
    QueueLane.objects.ensure([stopped.pk, other.pk])

    with transaction.atomic():
        Delivery.objects.cancel_stopped(stopped)
        claims = beside(lambda: queue.claim(10))
        assert [claim.event_id for claim in claims.result(timeout=60)] == [event.pk]

    assert Delivery.objects.get(webhook=stopped).state == "cancelled"


def test_the_victim_of_a_deadlock_records_again_at_once(alice, webhook, clock, beside, caplog):
    """A host's own update may lock deliveries in another order."""
    caplog.set_level("INFO", "webhooks_app.delivery")
    make_webhook(alice)
    emit_one(alice)
    worker = DeliveryWorker(using="default", clock=clock, window=8)
    worker.turn(lambda _: False)
    first, second = sorted(worker.take(), key=lambda claim: claim.delivery_id)
    worker.put([answered(claim, clock, 200) for claim in (first, second)])

    with transaction.atomic():
        be_no_victim()
        QueueEntry.objects.lock([second.delivery_id])
        recording = beside(worker.record_turn)
        assert not recording.done()
        QueueEntry.objects.lock([first.delivery_id])
    recording.result(timeout=20)

    assert "Repeating a transaction after a deadlock." in caplog.messages
    assert not worker.outage.is_open
    assert not Delivery.objects.exclude(state="succeeded").exists()


def be_no_victim() -> None:
    """PostgreSQL ends the session that notices the deadlock, InnoDB the one with fewer changes."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '60s'")
    get_user_model().objects.bulk_create(get_user_model()(username=f"user {number}") for number in range(100))
