"""Ordered delivery: one delivery of a group at a time, in the order of emission."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from webhooks_app import emit
from webhooks_app.delivery.claim import ClaimRequest
from webhooks_app.delivery.schedule import Look
from webhooks_app.delivery.sending import finish, finish_lost, request_for
from webhooks_app.emission import NewEvent, emit_many
from webhooks_app.exceptions import InvalidEventDataError
from webhooks_app.maintenance.jobs import repair_groups
from webhooks_app.models import Delivery, Event, OrderNumber, QueueEntry, QueueLane, Replay, Webhook
from webhooks_app.models.queue_entry import QueueEntryQuerySet
from webhooks_app.operations import lifecycle, replays
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.operations.sending import send_test_event
from webhooks_app.replays import planning
from webhooks_app.replays.runner import advance
from webhooks_app.transport import Exchange, Response

from ..support.rows import EVENT_TYPE, make_webhook
from .conftest import recorded

pytestmark = pytest.mark.django_db


@pytest.fixture
def in_order(alice):
    return make_webhook(alice, order="webhook")


@pytest.fixture
def by_key(alice):
    return make_webhook(alice, order="key")


def emitted(owner, *keys):
    return [emit(EVENT_TYPE, {"error": "No outline"}, owner=owner, ordering_key=key).pk for key in keys]


def claimed(queue):
    """Return the claims and their events."""
    claims = queue.claim(100)
    return claims, [claim.event_id for claim in claims]


def record_all(queue, claims, clock, status=200):
    finished = []
    for claim in claims:
        request = request_for(claim, now=clock(), timeout_seconds=30)
        finished.append(finish(Exchange(request=request, duration_seconds=0.1, response=Response(status=status))))
    return recorded(queue, finished, clock())


def drained(queue, clock):
    """Deliver everything due, one claim after another. Return the events of each claim."""
    found = []
    while (batch := claimed(queue))[0]:
        found.append(batch[1])
        record_all(queue, batch[0], clock)
    return found


def parked():
    return QueueEntry.objects.parked().count()


def test_deliveries_are_sent_one_after_the_other(alice, in_order, queue, clock):
    events = emitted(alice, None, "a", "b", None)

    assert drained(queue, clock) == [[event] for event in events]
    assert not QueueEntry.objects.exists()


def test_each_key_has_an_order_of_its_own(alice, by_key, queue, clock):
    a1, b1, a2, b2, a3 = emitted(alice, "a", "b", "a", "b", "a")

    assert [sorted(batch) for batch in drained(queue, clock)] == [sorted([a1, b1]), sorted([a2, b2]), [a3]]


def test_events_without_an_ordering_key_are_unordered_by_key(alice, by_key, queue, clock):
    events = emitted(alice, None, None, "a", None)

    assert sorted(claimed(queue)[1]) == sorted(events)


def test_an_ordering_key_changes_nothing_without_an_order(alice, webhook, queue):
    events = emitted(alice, "a", "a")

    assert sorted(claimed(queue)[1]) == sorted(events)
    assert set(QueueEntry.objects.values_list("order_key", "place")) == {(None, None)}


def test_the_order_of_emission_counts_and_not_the_identifiers(alice, in_order, queue, clock):
    with transaction.atomic():
        events = emit_many([NewEvent(EVENT_TYPE, {"error": "a"}, owner=alice) for _ in range(5)])
    events += [emit(EVENT_TYPE, {"error": "a"}, owner=alice) for _ in range(3)]
    QueueEntry.objects.update(due_at=clock())

    assert drained(queue, clock) == [[event.pk] for event in events]


def test_filters_and_orders_work_together(alice, queue, clock):
    wanted = make_webhook(alice, order="webhook", filter={"error": "b"})
    other = make_webhook(alice, order="key")
    for error in ("a", "b", "b"):
        emit(EVENT_TYPE, {"error": error}, owner=alice, ordering_key="k")

    assert Delivery.objects.filter(webhook=wanted).count() == 2
    assert [len(batch) for batch in drained(queue, clock)] == [2, 2, 1]
    assert Delivery.objects.filter(webhook=other, state="succeeded").count() == 3


def test_a_retry_keeps_its_place(alice, in_order, queue, clock):
    first, second = emitted(alice, None, None)

    claims, _ = claimed(queue)
    assert parked() == 1
    record_all(queue, claims, clock, status=500)
    assert parked() == 1

    clock.advance(0.5)
    assert [claim.kind for claim in queue.claim(100)] == ["retry_notice"]
    clock.advance(1)
    claims, events = claimed(queue)
    assert (events, claims[0].number) == ([first], 2)
    record_all(queue, claims, clock)
    assert claimed(queue)[1] == [second]


def test_the_next_delivery_becomes_due_when_one_is_given_up(alice, in_order, queue, clock):
    first, second = emitted(alice, None, None)
    Delivery.objects.update(max_attempts=1)
    QueueEntry.objects.update(max_attempts=1)

    record_all(queue, claimed(queue)[0], clock, status=500)

    assert Delivery.objects.get(event=first).state == "given_up"
    assert claimed(queue)[1] == [second]


def test_a_lost_claim_keeps_its_place(alice, in_order, queue, other_queue, clock):
    first, _ = emitted(alice, None, None)
    queue.claim(100)
    clock.advance(46)

    (lost,) = other_queue.claim(100)
    recorded(other_queue, [finish_lost(lost, clock())], clock())
    clock.advance(2)

    assert lost.is_lost
    assert claimed(other_queue)[1] == [first]


def test_a_delivery_with_a_late_commit_does_not_overtake(alice, in_order, queue, clock):
    late, early = emitted(alice, None, None)
    late_entry = QueueEntry.objects.filter(event=late)
    place = late_entry.get().place
    late_entry.update(due_at=None)
    late_entry.update(place=None)
    claims, events = claimed(queue)
    assert events == [early]

    late_entry.update(place=place, due_at=clock())

    assert claimed(queue)[1] == []
    record_all(queue, claims, clock)
    assert claimed(queue)[1] == [late]


def test_a_released_claim_is_claimed_again_first(alice, in_order, queue, clock):
    first, _ = emitted(alice, None, None)
    queue.release(queue.claim(100))

    assert claimed(queue)[1] == [first]


def test_two_workers_have_one_request_of_a_group_open(alice, by_key, queue, other_queue, clock):
    a1, a2, b1 = emitted(alice, "a", "a", "b")

    claims, events = claimed(queue)

    assert sorted(events) == sorted([a1, b1])
    assert claimed(other_queue)[1] == []
    record_all(queue, claims, clock)
    assert claimed(other_queue)[1] == [a2]


def test_a_delivery_is_parked_once(alice, in_order, queue, clock):
    emitted(alice, *[None] * 30)
    queue.claim(100)
    assert parked() == 29

    with CaptureQueriesContext(
        connection,
    ) as context:
        assert queue.claim(100) == []

    assert not [query for query in context if "due_at = NULL" in query["sql"] or "FOR UPDATE" in query["sql"]]
    assert queue.look_again_at is None


@pytest.fixture
def cost(queue, clock, monkeypatch):
    """Return the costs of recording claims and claiming again: statements, and rows read from the queue."""
    fetch_batch = queue.sql.fetch_batch
    rows = []

    def counted(*args, **kwargs):
        found = fetch_batch(*args, **kwargs)
        rows.append(len(found))
        return found

    def measure(claims):
        monkeypatch.setattr(queue.sql, "fetch_batch", counted)
        rows.clear()
        with CaptureQueriesContext(connection) as context:
            record_all(queue, claims, clock)
            following = queue.claim(100)
        return following, (len(context), sum(rows))

    return measure


def test_the_cost_of_a_claim_does_not_depend_on_the_backlog(alice, in_order, queue, cost):
    emitted(alice, *[None] * 5)
    claims, few = cost(queue.claim(100))
    emitted(alice, *[None] * 60)
    queue.claim(100)
    assert parked() == 63

    following, many = cost(claims)

    assert len(claims) == len(following) == 1
    assert few == many


def test_a_claim_of_a_freed_group_reads_only_later_deliveries(alice, in_order, queue, clock):
    first, _ = emitted(alice, None, None)
    QueueEntry.objects.filter(event=first).update(due_at=clock() - timedelta(hours=1))

    assert queue.claim_of([in_order.pk], 10, due_from={in_order.pk: clock() - timedelta(minutes=59)}) == []
    assert claimed(queue)[1] == [first]


def test_a_search_for_lost_claims_reads_no_backlog(alice, in_order, queue, clock):
    emitted(alice, None, None)
    queue.claim(1)
    clock.advance(46)
    terms = queue.queue._terms(Look(queue.now, clock(), 10, with_lost=True))

    with CaptureQueriesContext(connection) as context:
        picked = queue.sql.claim([ClaimRequest(in_order.pk, 0, 0, 1, is_unknown=False, lost_only=True)], terms)

    assert [claim.lost_since is not None for claim in picked.claims] == [True]
    limits = [query["sql"].rpartition("LIMIT ")[2] for query in context if "ORDER BY due_at LIMIT" in query["sql"]]
    assert [limit.split(")")[0].strip() for limit in limits] == ["1"]


def test_a_long_backlog_is_parked_over_several_looks(alice, in_order, queue, clock, monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.sql.portable.PARKED_AT_A_TIME", 1)
    update_webhook(in_order, actor=PROJECT, max_in_flight=2)
    events = emitted(alice, *[None] * 12)

    assert claimed(queue)[1] == events[:1]
    queue.claim(100)

    assert queue.look_again_at is not None
    while queue.look_again_at is not None:
        assert queue.claim(100) == []
    assert parked() == 11


def test_cancelling_makes_the_next_delivery_due(alice, in_order, queue, clock):
    first, second, third = emitted(alice, None, None, None)
    queue.release(queue.claim(100))
    assert parked() == 2

    Delivery.objects.filter(event__in=[first, second]).cancel("test")

    assert list(QueueEntry.objects.filter(due_at__isnull=False).values_list("event_id", flat=True)) == [third]
    assert claimed(queue)[1] == [third]


def test_deleting_an_event_makes_the_next_delivery_due(alice, in_order, queue, clock):
    first, second = emitted(alice, None, None)
    Event.objects.filter(pk=first)._raw_delete("default")

    assert drained(queue, clock) == [[second]]


def test_expiry_makes_the_next_delivery_due(alice, in_order, queue, clock):
    first, second = emitted(alice, None, None)
    QueueEntry.objects.filter(event=first).update(expires_at=clock())

    assert drained(queue, clock) == [[second]]


def test_a_pause_holds_the_whole_group(alice, in_order, queue, clock):
    first, second = emitted(alice, None, None)
    lifecycle.pause(in_order, actor=PROJECT)
    assert claimed(queue)[1] == []

    lifecycle.resume(in_order, actor=PROJECT)

    assert drained(queue, clock) == [[first], [second]]


def test_disabling_a_webhook_cancels_its_parked_deliveries(alice, in_order, queue, clock):
    emitted(alice, None, None, None)
    claims, _ = claimed(queue)

    lifecycle.disable(in_order, actor=PROJECT)
    record_all(queue, claims, clock)

    assert not QueueEntry.objects.exists()
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["cancelled", "cancelled", "succeeded"]


def test_a_long_backlog_is_cancelled_in_pages(alice, in_order, queue, monkeypatch):
    monkeypatch.setattr("webhooks_app.models.queue_entry.ENTRIES_AT_A_TIME", 2)
    monkeypatch.setattr("webhooks_app.models.queue_entry.KEYS_AT_A_TIME", 3)
    emitted(alice, *[None] * 7)
    queue.claim(100)

    with transaction.atomic():
        pages = list(QueueEntry.objects.unclaimed().removing())

    assert [len(page) for page in pages] == [2, 1, 2, 1]
    assert QueueEntry.objects.get().claimed_at is not None


def test_a_redelivery_is_last_in_its_group(alice, by_key, queue, clock):
    (first,) = emitted(alice, "a")
    drained(queue, clock)
    second, third = emitted(alice, "a", "a")

    Delivery.objects.get(event=first).redeliver()
    (fourth,) = emitted(alice, "a")

    assert drained(queue, clock) == [[second], [third], [first], [fourth]]


def test_replayed_deliveries_are_last_in_their_group(alice, by_key, queue, clock):
    events = emitted(alice, "a", "a", "b")
    drained(queue, clock)
    (live,) = emitted(alice, "a")
    replay = replays.plan(by_key, actor=PROJECT, states=["succeeded"])
    replays.start(replay, actor=PROJECT)

    while advance("default", replay.pk, clock()) is not None:
        pass

    clock.advance(1)
    a1, a2, b1 = events
    batches = drained(queue, clock)
    assert sorted(batches[0]) == sorted([live, b1])
    assert batches[1:] == [[a1], [a2]]


def test_replayed_events_of_one_millisecond_keep_their_order(alice, by_key, queue, clock, monkeypatch):
    """Within a millisecond, identifiers are random. The replay may queue two deliveries at a time."""
    monkeypatch.setattr(planning, "LEAST_EVENTS", 5)
    Webhook.objects.update(max_in_flight=1)
    at = time.time_ns()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: at)
        events = emitted(alice, *["a"] * 12)
    events += emitted(alice, *["a"] * 12)
    Delivery.objects.all().delete()
    replay = replays.plan(by_key, actor=PROJECT)
    replays.start(replay, actor=PROJECT)

    replayed = []
    while Replay.objects.get().state != "done":
        advance("default", replay.pk, clock())
        clock.advance(1)
        replayed += drained(queue, clock)

    assert replayed == [[event] for event in events]


def test_tests_and_handshakes_are_outside_the_order(alice, in_order, queue, clock):
    emitted(alice, None)
    queue.claim(100)
    Delivery.objects.queue(webhook=in_order, kind="verification")
    send_test_event(in_order, EVENT_TYPE, actor=PROJECT)

    assert sorted(claim.kind for claim in queue.claim(100)) == ["test", "verification"]


@pytest.mark.parametrize(
    ("before", "after", "batches"),
    [
        pytest.param("webhook", "none", [[0, 1, 2, 3]], id="to none"),
        pytest.param("webhook", "key", [[0, 1, 3], [2]], id="to key"),
        pytest.param("key", "webhook", [[0, 3], [1], [2]], id="to webhook"),
        pytest.param("none", "webhook", [[0, 1, 2, 3]], id="pending ones stay unordered"),
    ],
)
def test_a_change_of_the_order_regroups_deliveries(alice, queue, clock, before, after, batches):
    webhook = make_webhook(alice, order=before)
    events = emitted(alice, "a", "b", "a", None)
    queue.release(queue.claim(100))

    update_webhook(webhook, actor=PROJECT, order=after)

    assert parked() == 0
    assert [sorted(batch) for batch in drained(queue, clock)] == [sorted(events[n] for n in batch) for batch in batches]


def test_a_delivery_claimed_without_an_order_frees_its_group(alice, in_order, queue, clock):
    _, second = emitted(alice, None, None)
    Webhook.objects.update(order="none")  # after the emissions had read it
    claims = queue.claim(1)
    Webhook.objects.update(order="webhook")
    assert claimed(queue)[1] == []

    record_all(queue, claims, clock)

    assert claimed(queue)[1] == [second]


@pytest.mark.parametrize("order", ["webhook", "key"])
def test_a_group_continues_after_its_order_was_switched_off_and_on(alice, queue, other_queue, clock, order):
    webhook = make_webhook(alice, order=order)
    before = emitted(alice, "a", "a")
    claims, _ = claimed(queue)
    update_webhook(webhook, actor=PROJECT, order="none")
    between = emitted(alice, "a", "a")
    claims += other_queue.claim(1)
    update_webhook(webhook, actor=PROJECT, order=order)
    after = emitted(alice, "a", "a")
    claims += queue.claim(100)

    record_all(queue, claims, clock)
    found = [event for batch in drained(queue, clock) for event in batch]

    sent = [claim.event_id for claim in claims]
    assert sorted(sent + found) == sorted([*before, *between, *after])
    assert found[-1] == after[-1]


def test_a_retry_queued_during_a_cancellation_blocks_no_group(alice, in_order, queue, clock, monkeypatch):
    first, second = emitted(alice, None, None)
    claims = queue.claim(10)
    raw_delete = QueueEntryQuerySet._raw_delete

    def release_and_delete(entries, using):
        queue.release(claims)
        return raw_delete(entries, using)

    monkeypatch.setattr(QueueEntryQuerySet, "_raw_delete", release_and_delete)
    Delivery.objects.filter(event=first).waiting().cancel("replay_cancelled")
    monkeypatch.undo()
    queue.release(claims)

    assert drained(queue, clock) == [[first], [second]]


@pytest.mark.django_db(transaction=True)
def test_the_repair_job_frees_a_blocked_group(alice, by_key, queue, clock):
    first, _, third = emitted(alice, "a", "a", "b")
    QueueEntry.objects.update(due_at=None)
    assert claimed(queue)[1] == []

    repair_groups("default", clock(), {})

    assert sorted(claimed(queue)[1]) == sorted([first, third])
    assert QueueEntry.objects.repair() == 0


def test_numbers_leave_no_rows(alice, in_order):
    emitted(alice, None)
    numbers = OrderNumber.objects.take(3)

    assert numbers == sorted(set(numbers))
    assert not OrderNumber.objects.exists()


@pytest.mark.parametrize(("order", "locks"), [("none", 0), ("webhook", 1)])
def test_only_an_ordered_delivery_locks_its_lane_when_it_is_recorded(alice, queue, clock, order, locks):
    make_webhook(alice, order=order)
    emitted(alice, None)
    claims = queue.claim(10)  # prepares its statement, unless another test did
    with CaptureQueriesContext(connection) as context:
        record_all(queue, claims, clock)
        Delivery.objects.get()

    assert len([query for query in context if QueueLane._meta.db_table in query["sql"]]) == locks


@pytest.mark.parametrize("key", ["", "a" * 101, "a\n", 7])
def test_an_invalid_ordering_key_is_refused(alice, key):
    with pytest.raises(InvalidEventDataError, match="ordering_key"):
        emit(EVENT_TYPE, {"error": "a"}, owner=alice, ordering_key=key)


@pytest.mark.only_on("postgresql")
def test_a_webhook_with_an_order_is_claimed_while_another_thread_claims(alice, in_order, queue, monkeypatch):
    [event] = emitted(alice, None)
    sql = queue.sql
    monkeypatch.setattr(sql, "_ordered", frozenset())
    claim_at_once = sql._claim_at_once

    def beside_another_thread(*arguments):
        picked = claim_at_once(*arguments)
        sql._ordered = frozenset()
        return picked

    monkeypatch.setattr(sql, "_claim_at_once", beside_another_thread)

    assert claimed(queue)[1] == [event]
