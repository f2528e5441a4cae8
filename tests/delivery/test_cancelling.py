"""Cancellation of the pending deliveries of a stopped webhook, in short transactions."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webhooks_app import forget_owner, send_test_event
from webhooks_app.models import Delivery, QueueEntry, Webhook
from webhooks_app.models.hold import HoldReason, hold_of
from webhooks_app.models.queue_entry import ENTRIES_AT_A_TIME
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification

from ..support.plans import recorded_plans, rows_read
from ..support.rows import EVENT_TYPE, emit_one, make_backlog, make_webhook, unverified

pytestmark = pytest.mark.django_db

QUEUE = QueueEntry._meta.db_table
LONG = 4 * ENTRIES_AT_A_TIME + 100


def waiting(webhook: Webhook) -> int:
    assert webhook.deliveries.pending().count() == QueueEntry.objects.filter(webhook=webhook).count()
    return webhook.deliveries.pending().count()


STOPS: dict[str, Any] = {
    "disabled": lambda webhook: webhook.disable("Over."),
    "failed": lambda webhook: webhook.fail("Over."),
    "deleted": lambda webhook: webhook.soft_delete(),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
def test_stopping_a_webhook_cancels_a_page_and_each_look_another(webhook, queue, stop):
    make_backlog(webhook, LONG)

    stop(webhook)

    left = [waiting(webhook)]
    while left[-1]:
        assert queue.claim(10) == []
        left.append(waiting(webhook))
    assert left == [LONG - page * ENTRIES_AT_A_TIME for page in (1, 2, 3, 4)] + [0]
    assert set(webhook.deliveries.values_list("state_reason", flat=True)) == {f"webhook_{stop_name(webhook)}"}


def stop_name(webhook: Webhook) -> str:
    return "deleted" if webhook.deleted_at else webhook.status


def test_a_worker_cancels_the_whole_backlog_and_sends_none_of_it(webhook, receiver, deliver):
    make_backlog(webhook, LONG)
    lifecycle.disable(webhook, actor=PROJECT)
    transport = receiver(200)

    deliver(transport)

    assert waiting(webhook) == 0
    assert transport.requests == []


def test_a_page_costs_the_same_for_a_short_and_a_long_backlog(alice, queue):
    numbers = []
    for number in (ENTRIES_AT_A_TIME + 1, LONG):
        webhook = make_webhook(alice)
        make_backlog(webhook, number)
        with CaptureQueriesContext(connection) as queries:
            webhook.disable("Over.")
        numbers.append(len(queries))
        QueueEntry.objects.all().delete()
        Delivery.objects.all().delete()

    assert numbers[0] == numbers[1]


@pytest.mark.only_on("sqlite")
def test_a_page_is_read_in_the_order_of_an_index(webhook):
    with recorded_plans() as plans:
        webhook.disable("Over.")

    assert f"SEARCH {QUEUE} USING INDEX webhooks_queue_due (webhook_id=?)" in plans.of(QueueEntry)
    assert not [step for step in plans.of(QueueEntry) if "TEMP B-TREE" in step]


CHANGES: dict[str, Any] = {
    "create": lambda webhook: make_webhook(webhook.owner),
    "verify": lambda webhook: start_verification(unverified(webhook), actor=PROJECT),
    "disable": lambda webhook: lifecycle.disable(webhook, actor=PROJECT),
    "delete": lambda webhook: lifecycle.delete(webhook, actor=PROJECT),
    "forget": lambda webhook: forget_owner(webhook.owner),
}


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_webhook_does_not_read_the_queue_of_others(webhook, change):
    emit_one(webhook.owner)

    with recorded_plans() as plans:
        change(webhook)

    assert plans.scans(QueueEntry) == []


@pytest.mark.only_on("sqlite")
def test_an_expired_delivery_is_cancelled_without_reading_the_queue_of_others(webhook, queue, clock):
    emit_one(webhook.owner)
    QueueEntry.objects.update(expires_at=clock())

    with recorded_plans() as plans:
        queue.claim(10)

    assert waiting(webhook) == 0
    assert plans.scans(QueueEntry) == []


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables")
def test_a_page_does_not_read_the_whole_backlog(webhook):
    make_backlog(webhook, 20 * ENTRIES_AT_A_TIME)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")  # which is cheaper for a short queue

    assert rows_read(lambda: webhook.disable("Over.")) < 15 * ENTRIES_AT_A_TIME


def test_tests_of_a_failed_webhook_are_not_cancelled(webhook, queue):
    make_backlog(webhook, LONG)
    kept = send_test_event(webhook, EVENT_TYPE)

    webhook.fail("Over.")
    for _ in range(5):
        queue.claim(10)

    assert webhook.deliveries.pending().get() == kept


def test_a_delivery_that_is_not_yet_cancelled_has_the_hold_of_its_webhook(webhook, clock):
    make_backlog(webhook, LONG)

    webhook.disable("Over.")

    pending = webhook.deliveries.pending().select_related("webhook", "queue_entry")[0]
    hold = hold_of(pending, now=clock())
    assert hold is not None
    assert hold.reason == HoldReason.STOPPED


def test_an_enabled_webhook_keeps_the_deliveries_that_were_not_yet_cancelled(webhook, queue):
    make_backlog(webhook, LONG)
    webhook.disable("Over.")
    Webhook.objects.update(status="active")

    queue.claim(1)

    assert waiting(webhook) == LONG - ENTRIES_AT_A_TIME


def test_an_ordered_backlog_is_cancelled(alice, deliver, receiver):
    webhook = make_webhook(alice, order="webhook")
    make_backlog(webhook, LONG)
    QueueEntry.objects.filter(place__gt=QueueEntry.objects.order_by("place")[0].place).update(due_at=None)
    webhook.disable("Over.")

    deliver(receiver(200))

    assert waiting(webhook) == 0
