"""Claims: fairness, limits and the validity of results."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DataError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from webhooks_app.delivery.sending import finish, finish_lost, request_for
from webhooks_app.delivery.slots import Slots
from webhooks_app.delivery.sql import oldest_due_at
from webhooks_app.encryption import decrypt
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, Webhook
from webhooks_app.transport import Exchange, Response

from ..support.queues import LookingQueue
from ..support.rows import deliveries, emit_one, make_webhook
from ..support.slots import open_slots
from .conftest import recorded

pytestmark = pytest.mark.django_db

LEASE = timedelta(seconds=45)


@pytest.fixture
def queue(clock):
    return LookingQueue(using="default", clock=clock, lease=LEASE, slots=open_slots())


def answered(claim, clock, status=200):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    return finish(Exchange(request=request, duration_seconds=0.1, response=Response(status=status)))


def test_a_delivery_is_not_claimed_twice(alice, webhook, queue):
    emit_one(alice)

    assert [claim.number for claim in queue.claim(10)] == [1]
    assert queue.claim(10) == []


def test_nothing_is_claimed_before_it_is_due(alice, webhook, queue, clock):
    emit_one(alice)
    QueueEntry.objects.update(due_at=clock() + timedelta(seconds=5))

    assert queue.claim(10) == []
    clock.advance(5)
    assert len(queue.claim(10)) == 1


def test_a_delivery_due_by_a_lagging_clock_is_looked_for_again(alice, webhook, queue, clock, monkeypatch):
    monkeypatch.setattr(clock, "latest", lambda: clock() + timedelta(seconds=1))
    emit_one(alice)
    due_at = clock() + timedelta(seconds=1)
    QueueEntry.objects.update(due_at=due_at)

    assert queue.claim(10) == []
    assert queue.look_again_at == due_at
    clock.advance(1)
    assert len(queue.claim(10)) == 1
    assert queue.look_again_at is None


def test_claims_for_a_webhook_do_not_exceed_its_limit(alice, webhook, queue, clock):
    for _ in range(20):
        emit_one(alice)

    claims = queue.claim(100)

    assert len(claims) == 16
    assert queue.claim(100) == []
    recorded(queue, [answered(claim, clock) for claim in claims[:3]], clock())
    assert len(queue.claim(100)) == 3


def test_a_webhook_is_still_fast_after_hours_without_deliveries(alice, webhook, clock):
    queue = LookingQueue(using="default", clock=clock, lease=LEASE, slots=Slots(window=64, cap=4))
    emit_one(alice)
    finished = [answered(claim, clock) for claim in queue.claim(10)]
    queue.slots.note(finished, clock.monotonic())
    recorded(queue, finished, clock())
    queue.publish()

    for _ in range(2):
        clock.advance(3601)
        assert queue.claim(10) == []
    assert not queue.slots.is_known(webhook.pk)
    for _ in range(4):
        emit_one(alice)

    assert len(queue.claim(10)) == 4


def test_a_long_backlog_does_not_delay_a_short_one(alice, queue):
    busy, quiet = make_webhook(alice), make_webhook(alice, "file.uploaded")
    for _ in range(30):
        emit_one(alice)
    from webhooks_app import emit, registry

    emit("file.uploaded", registry.get("file.uploaded").example, owner=alice)

    claims = queue.claim(4)

    assert [claim.webhook_id for claim in claims].count(quiet.pk) == 1
    assert [claim.webhook_id for claim in claims].count(busy.pk) == 2


def test_webhooks_beyond_the_size_of_a_claim_take_turns(alice, queue):
    webhooks = [make_webhook(alice) for _ in range(5)]
    emit_one(alice)

    turns = [claim.webhook_id for _ in range(5) for claim in queue.claim(2)]

    assert sorted(turns) == sorted(webhook.pk for webhook in webhooks)


def test_the_oldest_due_delivery_is_first(alice, webhook, queue, clock):
    first, second = emit_one(alice), emit_one(alice)
    QueueEntry.objects.filter(event=second).update(due_at=clock() - timedelta(minutes=2))

    assert [claim.event_id for claim in queue.claim(1)] == [second.pk]
    assert [claim.event_id for claim in queue.claim(1)] == [first.pk]


def test_a_released_claim_is_due_at_once_and_not_counted(alice, webhook, queue):
    emit_one(alice)
    queue.release(queue.claim(10))

    assert [claim.number for claim in queue.claim(10)] == [1]


def test_a_lost_claim_is_recorded_as_a_failed_attempt(alice, webhook, queue, clock):
    emit_one(alice)
    queue.claim(10)
    clock.advance(46)

    (lost,) = queue.claim(10)
    recorded(queue, [finish_lost(lost, clock())], clock())

    (attempt,) = DeliveryAttempt.objects.all()
    assert (attempt.number, attempt.result) == (1, "worker_lost")
    assert deliveries()[0].due_at == clock() + timedelta(seconds=1)
    clock.advance(1)
    assert [claim.number for claim in queue.claim(10) if claim.kind == "event"] == [2]


def test_a_delivery_that_always_loses_its_worker_is_given_up_after_four(alice, queue, clock):
    make_webhook(alice, retry_notices=False)
    emit_one(alice)

    for _ in range(4):
        assert [claim.is_lost for claim in queue.claim(10)] == [False]
        clock.advance(46)
        recorded(queue, [finish_lost(lost, clock()) for lost in queue.claim(10)], clock())
        clock.advance(30)

    assert queue.claim(10) == []
    assert deliveries()[0].state == "given_up"
    assert DeliveryAttempt.objects.filter(result="worker_lost").count() == 4


def test_a_late_worker_cannot_overwrite_a_newer_claim(alice, webhook, queue, clock):
    emit_one(alice)
    (slow,) = queue.claim(10)
    clock.advance(46)
    recorded(queue, [finish_lost(lost, clock()) for lost in queue.claim(10)], clock())
    clock.advance(1)
    (newer,) = [claim for claim in queue.claim(10) if claim.kind == "event"]

    assert recorded(queue, [answered(slow, clock)], clock()) == []

    assert deliveries()[0].state == "pending"
    assert len(recorded(queue, [answered(newer, clock)], clock())) == 1
    assert deliveries()[0].state == "succeeded"


def test_nothing_is_recorded_for_a_claim_that_another_worker_has_now(alice, webhook, queue, other_queue, clock):
    emit_one(alice)
    (earlier,) = queue.claim(10)
    queue.release([earlier])
    (claim,) = other_queue.claim(10)

    assert recorded(queue, [answered(earlier, clock, 500)], clock()) == []

    assert not DeliveryAttempt.objects.exists()
    assert recorded(other_queue, [answered(claim, clock)], clock())
    assert deliveries()[0].state == "succeeded"


def test_nothing_is_recorded_for_a_delivery_that_was_cancelled_meanwhile(alice, webhook, queue, clock):
    emit_one(alice)
    (claim,) = queue.claim(10)
    Delivery.objects.all().cancel("by hand")

    assert recorded(queue, [answered(claim, clock)], clock()) == []
    assert deliveries()[0].state == "cancelled"


def test_a_notice_whose_retry_is_due_is_not_sent(alice, webhook, queue, clock):
    emit_one(alice)
    (claim,) = queue.claim(10)
    recorded(queue, [answered(claim, clock, 500)], clock())
    clock.advance(2)

    claims = queue.claim(10)

    assert [claim.kind for claim in claims] == ["event"]
    assert [(n.state, n.state_reason) for n in deliveries("retry_notice")] == [("cancelled", "expired")]


def test_an_expired_notice_waits_for_the_end_of_a_pause(alice, webhook, queue, clock):
    emit_one(alice)
    recorded(queue, [answered(claim, clock, 500) for claim in queue.claim(10)], clock())
    clock.advance(2)
    Webhook.objects.update(paused_at=clock())

    assert queue.claim_of([webhook.pk], 10) == []
    assert [notice.state for notice in deliveries("retry_notice")] == ["pending"]

    Webhook.objects.update(paused_at=None)
    assert [claim.kind for claim in queue.claim_of([webhook.pk], 10)] == ["event"]
    assert [notice.state for notice in deliveries("retry_notice")] == ["cancelled"]


def test_the_number_of_statements_of_a_claim_is_constant(alice, queue):
    for _ in range(6):
        make_webhook(alice)

    def statements():
        with CaptureQueriesContext(connection) as captured:
            queue.claim(200)
        return len(captured)

    emit_one(alice)
    queue.claim(200)  # inserts the lanes
    emit_one(alice)
    few = statements()
    for _ in range(10):
        emit_one(alice)

    assert statements() == few


def test_an_attempt_with_unstorable_text_is_stored_without_it(alice, webhook, queue, clock):
    emit_one(alice)
    (claim,) = queue.claim(10)
    finished = answered(claim, clock)
    unstorable = finished._replace(attempt=finished.attempt._replace(response_body="\ud800"))

    recorded(queue, [unstorable], clock())

    assert DeliveryAttempt.objects.get().response_body == ""
    assert deliveries()[0].state == "succeeded"


def test_an_attempt_with_unstorable_text_does_not_affect_the_others_of_its_batch(alice, webhook, queue, clock):
    for _ in range(3):
        emit_one(alice)
    first, second, third = (answered(claim, clock) for claim in queue.claim(10))
    unstorable = second._replace(attempt=second.attempt._replace(response_body="\ud800"))

    assert len(recorded(queue, [first, unstorable, third], clock())) == 3

    assert [delivery.state for delivery in deliveries()] == ["succeeded"] * 3
    assert not QueueEntry.objects.exists()


def test_only_a_handshake_of_the_current_url_verifies(alice, queue, clock):
    webhook = make_webhook(alice, status="pending")
    (claim,) = queue.claim(10)
    Webhook.objects.update(url="http://127.0.0.1:9000/elsewhere")
    request = request_for(claim, now=clock(), timeout_seconds=30)
    from .conftest import echo_challenge

    recorded(
        queue,
        [finish(Exchange(request=request, duration_seconds=0.1, response=echo_challenge(request)))],
        clock(),
    )

    webhook.refresh_from_db()
    assert webhook.status == "pending"


def end_of(how, webhook):
    {"disabled": webhook.disable, "failed": webhook.fail}[how]("Over.")


@pytest.mark.parametrize("how", ["disabled", "failed"])
def test_a_claim_lost_for_a_stopped_webhook_is_recorded_and_its_delivery_cancelled(alice, webhook, queue, clock, how):
    emit_one(alice)
    queue.claim(10)
    end_of(how, webhook)
    clock.advance(46)

    (lost,) = queue.claim(10)
    recorded(queue, [finish_lost(lost, clock())], clock())
    clock.advance(2)
    assert queue.claim(10) == []

    assert [(d.state, d.state_reason) for d in deliveries()] == [("cancelled", f"webhook_{how}")]


def test_lost_claims_are_returned_once(alice, webhook, queue, clock):
    emit_one(alice)
    queue.claim(10)
    clock.advance(46)

    assert [claim.is_lost for claim in queue.claim(10)] == [True]
    assert queue.claim(10) == []
    clock.advance(6)  # it was not recorded after all
    assert [claim.is_lost for claim in queue.claim(10)] == [True]


def test_a_claim_of_named_webhooks_is_full_at_its_own_limit(alice, webhook, queue, monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.queue.NAMED_ROOM", 2)
    for _ in range(3):
        emit_one(alice)

    assert len(queue.claim_of([webhook.pk], 100)) == 2
    assert queue.found.is_full
    assert len(queue.claim_of([webhook.pk], 100)) == 1
    assert not queue.found.is_full


def test_deliveries_behind_a_result_that_is_recorded_during_the_claim_are_left_behind(alice, queue, monkeypatch):
    make_webhook(alice, max_in_flight=1)
    for _ in range(2):
        emit_one(alice)
    first = queue.claim(10)
    claim = type(queue.sql).claim

    def claim_while_recording(*arguments):
        claimed = claim(*arguments)
        queue.slots.give_back(first)
        return claimed

    monkeypatch.setattr(type(queue.sql), "claim", claim_while_recording)

    assert queue.claim(10) == []
    assert queue.found.left


def test_a_claim_of_webhooks_without_deliveries_is_not_full(webhook, queue):
    assert queue.claim_of([], 100) == []
    assert not queue.found.is_full
    assert queue.claim_of([webhook.pk], 100) == []
    assert not queue.found.is_full


@pytest.mark.parametrize("page", [2, 3])
def test_webhooks_at_their_limit_do_not_hide_others(alice, queue, monkeypatch, page):
    monkeypatch.setattr("webhooks_app.delivery.sql.portable.MAX_LANES", page)
    monkeypatch.setattr("webhooks_app.delivery.queue.MAX_LANES", page)
    held = [make_webhook(alice) for _ in range(7)]
    served = make_webhook(alice)
    emit_one(alice)
    for webhook in held:
        webhook.await_verification()

    assert [claim.webhook_id for claim in queue.claim(100)] == [served.pk]
    assert queue.claim(100) == []


def test_a_claim_never_exceeds_the_requested_size(alice, queue):
    for _ in range(5):
        make_webhook(alice)
    emit_one(alice)

    assert [len(queue.claim(2)) for _ in range(4)] == [2, 2, 1, 0]


def test_expired_notices_do_not_hide_other_deliveries(alice, webhook, clock):
    queue = LookingQueue(using="default", clock=clock, lease=LEASE, slots=open_slots(cap=2))
    for _ in range(2):
        emit_one(alice)
    recorded(queue, [answered(claim, clock, 500) for claim in queue.claim(10)], clock())
    clock.advance(60)

    assert [claim.kind for claim in queue.claim(10)] == ["event", "event"]


def test_a_late_release_does_not_affect_a_newer_claim(alice, webhook, queue, clock):
    emit_one(alice)
    stale = queue.claim(10)
    clock.advance(46)
    recorded(queue, [finish_lost(lost, clock()) for lost in queue.claim(10)], clock())
    clock.advance(1)
    (newer,) = [claim for claim in queue.claim(10) if claim.kind == "event"]

    queue.release(stale)

    assert len(recorded(queue, [answered(newer, clock)], clock())) == 1
    assert deliveries()[0].state == "succeeded"


def test_an_expired_notice_of_a_lost_worker_is_recorded(alice, webhook, queue, clock):
    emit_one(alice)
    recorded(queue, [answered(claim, clock, 500) for claim in queue.claim(10)], clock())
    clock.advance(0.5)
    queue.claim(10)
    clock.advance(46)

    lost = [claim for claim in queue.claim(10) if claim.kind == "retry_notice"]
    recorded(queue, [finish_lost(claim, clock()) for claim in lost], clock())

    assert [(notice.state, notice.attempt_count) for notice in deliveries("retry_notice")] == [("given_up", 1)]


def test_only_the_result_of_the_newer_claim_is_recorded(alice, webhook, queue, clock):
    emit_one(alice)
    (stale,) = queue.claim(10)
    clock.advance(46)
    recorded(queue, [finish_lost(lost, clock()) for lost in queue.claim(10)], clock())
    clock.advance(1)
    (newer,) = [claim for claim in queue.claim(10) if claim.kind == "event"]

    valid = recorded(queue, [answered(stale, clock), answered(newer, clock)], clock())

    assert [item.claim.number for item in valid] == [2]
    assert DeliveryAttempt.objects.filter(delivery__kind="event").count() == 2


@pytest.mark.parametrize("page", [1, 2, 400])
def test_the_oldest_due_delivery_is_found_across_pages_without_held_ones(alice, queue, clock, monkeypatch, page):
    monkeypatch.setattr("webhooks_app.delivery.sql.portable.MAX_LANES", page)
    monkeypatch.setattr("webhooks_app.delivery.sql.MAX_LANES", page)
    webhooks = [make_webhook(alice) for _ in range(5)]
    emit_one(alice)
    due_at = [clock() - timedelta(minutes=minutes) for minutes in (1, 5, 9, 9, -9)]
    for webhook, at in zip(webhooks, due_at, strict=True):
        QueueEntry.objects.filter(webhook=webhook).update(due_at=at)
    webhooks[2].pause()
    webhooks[3].await_verification()

    assert oldest_due_at("default", clock()) == due_at[1]


def test_without_due_deliveries_there_is_no_oldest(alice, webhook, queue, clock):
    assert oldest_due_at("default", clock()) is None
    emit_one(alice)
    queue.claim(10)

    assert oldest_due_at("default", clock()) is None


def test_a_late_release_does_not_affect_a_claim_of_the_same_number(alice, webhook, queue, clock):
    emit_one(alice)
    stale = queue.claim(10)
    queue.release(stale)
    clock.advance(1)
    (newer,) = queue.claim(10)

    queue.release(stale)  # repeated, because its commit was not acknowledged

    assert newer.number == 1
    assert len(recorded(queue, [answered(newer, clock)], clock())) == 1


def test_no_repr_contains_a_key(alice, queue, clock):
    secret = make_webhook(alice, secret="a secret that is long enough").secret
    emit_one(alice)
    (claim,) = queue.claim(10)
    request = request_for(claim, now=clock(), timeout_seconds=30)

    finished = finish(Exchange(request=request, duration_seconds=0.1, response=Response(status=200)))

    assert decrypt(claim.lane.keys[0].token) == secret
    assert all(secret not in repr(each) for each in (claim.lane, claim, request, request.context, finished))


def test_lost_claims_are_skipped_while_their_workers_may_still_record(alice, webhook, queue, clock):
    emit_one(alice)
    (claim,) = queue.claim(10)
    clock.advance(46)
    emit_one(alice)

    assert [other.is_lost for other in queue.claim(10, with_lost=False)] == [False]

    assert len(recorded(queue, [answered(claim, clock)], clock())) == 1
    assert queue.claim(10) == []


@pytest.mark.parametrize("is_lost", [False, True], ids=["new", "lost"])
def test_a_delivery_of_a_deleted_event_is_cancelled(alice, webhook, queue, clock, is_lost):
    event = emit_one(alice)
    if is_lost:
        queue.claim(10)
        clock.advance(46)
    Event.objects.filter(pk=event.pk)._raw_delete("default")

    assert queue.claim(10) == []

    (delivery,) = deliveries()
    assert (delivery.state, delivery.state_reason) == ("cancelled", "event_deleted")
    assert delivery.attempt_count == 0


@pytest.mark.only_on("sqlite", "mariadb")  # PostgreSQL reads and claims them in one statement
def test_events_are_read_in_the_transaction_of_the_claim(alice, webhook, queue, monkeypatch):
    """If they cannot be read, nothing is claimed and held for the length of a lease."""
    emit_one(alice)
    with monkeypatch.context() as patch:
        patch.setattr(queue.sql, "events", gone)
        with pytest.raises(OperationalError):
            queue.claim(10)

    assert [claim.number for claim in queue.claim(10)] == [1]


def gone(*args):
    raise OperationalError("gone")


@pytest.mark.only_on("sqlite", "mariadb")  # PostgreSQL selects and changes them in one statement
def test_a_lost_claim_recorded_concurrently_remains_recorded(alice, webhook, queue, clock, monkeypatch):
    statements = queue.sql
    emit_one(alice)
    (claim,) = queue.claim(10)
    clock.advance(46)
    pick = statements._pick

    def pick_too_late(*args, **options):
        rows = pick(*args, **options)
        recorded(queue, [answered(claim, clock)], clock())
        return rows

    monkeypatch.setattr(statements, "_pick", pick_too_late)
    queue.claim(10)

    assert [(d.state, d.due_at) for d in deliveries()] == [("succeeded", None)]


def test_results_are_written_in_the_order_of_their_deliveries(alice, webhook, queue, clock, monkeypatch):
    """Prevents deadlocks between two workers that record the same deliveries."""
    for _ in range(3):
        emit_one(alice)
    finished = [answered(claim, clock) for claim in queue.claim(10)]
    written = []
    statements = type(queue.sql)
    save = statements.save

    def look_and_save(self, items, now):
        written.extend(item.claim.delivery_id for item in items)
        return save(self, items, now)

    monkeypatch.setattr(statements, "save", look_and_save)
    recorded(queue, sorted(finished, key=lambda item: item.claim.delivery_id, reverse=True), clock())

    assert written == sorted(written)
    assert len(written) == 3


def test_unstorable_text_is_not_logged(alice, webhook, queue, clock, monkeypatch, caplog):
    emit_one(alice)
    (claim,) = queue.claim(10)

    def refuse(self, items, now):
        raise DataError("invalid byte sequence\nCONTEXT:  COPY webhooks, line 1: said by the receiver")

    monkeypatch.setattr(type(queue.sql), "save", refuse)

    assert recorded(queue, [answered(claim, clock)], clock()) == []
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.state_reason, delivery.entry) == ("cancelled", "unrecordable", None)
    (message,) = caplog.messages
    assert message.startswith(
        f"Delivery {claim.delivery_id} to webhook {claim.webhook_id} is cancelled, because its attempt could not "
        "be recorded: DataError in test_queue.py"
    )
    assert "said by the receiver" not in caplog.text
