"""Pruning deletes old final rows only."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from webhooks_app import emit
from webhooks_app.exceptions import WebhookStateError
from webhooks_app.maintenance import forgetting, retention
from webhooks_app.models import Delivery, DeliveryAttempt, Event, EventReference, IdempotencyKey, Replay, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.replays import start
from webhooks_app.operations.sending import redeliver
from webhooks_app.protocol.ids import first_id_at, new_id

from ..support.rows import EVENT_TYPE, emit_one, make_id_older, make_older, make_webhook

pytestmark = pytest.mark.django_db

YEAR = timedelta(days=365)
TWO_MONTHS = timedelta(days=60)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(retention.time, "sleep", lambda seconds: None)


@pytest.fixture
def batches_of(monkeypatch):
    """Fix the size of batches, independent of their duration."""

    def batches_of(rows):
        for name in ("FIRST_ROWS", "LEAST_ROWS", "MOST_ROWS"):
            monkeypatch.setattr(forgetting, name, rows)

    return batches_of


def history(owner, state, age, *, event_type=EVENT_TYPE):
    """Create an event with one attempt of a delivery in this state, all of this age."""
    event = emit_one(owner) if event_type == EVENT_TYPE else emit(event_type, {"user_id": "u"}, owner=owner)
    delivery = Delivery.objects.get(event=event)
    Delivery.objects.filter(pk=delivery.pk).update(state=state)
    DeliveryAttempt.objects.create(delivery=delivery, number=1, result=state, started_at=timezone.now(), url="x")
    return make_older(event, age)


@contextmanager
def locked(rows):
    """Lock the rows in another transaction."""
    has_locked, may_end = threading.Event(), threading.Event()

    def hold():
        try:
            with transaction.atomic():
                list(rows)
                has_locked.set()
                may_end.wait(60)
        finally:
            connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert has_locked.wait(30)
        yield
    finally:
        may_end.set()
        thread.join()


def left():
    return Event.objects.count(), Delivery.objects.count(), DeliveryAttempt.objects.count()


def test_old_final_rows_are_deleted(alice):
    make_webhook(alice)
    history(alice, "succeeded", YEAR)
    history(alice, "given_up", YEAR)

    pruned = retention.prune()

    assert (pruned.attempts, pruned.bodies, pruned.deliveries, pruned.events) == (2, 0, 2, 2)
    assert pruned.is_complete
    assert left() == (0, 0, 0)


def test_recent_rows_are_not_deleted(alice):
    make_webhook(alice)
    history(alice, "succeeded", timedelta(days=29))

    assert retention.prune() == retention.Pruned()
    assert left() == (1, 1, 1)
    assert Event.objects.get().has_body


@pytest.mark.parametrize("age", [YEAR, TWO_MONTHS], ids=["a year", "two months"])
def test_pending_rows_are_not_deleted_at_any_age(alice, age):
    make_webhook(alice)
    history(alice, "pending", age)

    assert retention.prune() == retention.Pruned()
    assert left() == (1, 1, 1)
    assert Event.objects.get().has_body


def test_an_event_is_deleted_with_its_last_delivery(alice):
    make_webhook(alice)
    make_webhook(alice)
    event = emit_one(alice)
    Delivery.objects.filter(pk=Delivery.objects.first().pk).update(state="succeeded")
    event = make_older(event, YEAR)

    assert retention.prune() == retention.Pruned()

    Delivery.objects.update(state="given_up")
    assert retention.prune().deliveries == 2


def test_attempts_and_bodies_are_deleted_before_deliveries_and_events(alice):
    make_webhook(alice)
    history(alice, "succeeded", TWO_MONTHS)

    pruned = retention.prune()

    assert (pruned.attempts, pruned.bodies, pruned.deliveries, pruned.events) == (1, 1, 0, 0)
    assert left() == (1, 1, 0)
    assert not Event.objects.get().has_body


def test_a_body_is_deleted_once(alice):
    make_webhook(alice)
    history(alice, "succeeded", TWO_MONTHS)
    retention.prune()

    assert retention.prune() == retention.Pruned()


def test_the_body_of_an_event_without_deliveries_is_deleted_too(alice):
    make_older(emit_one(alice), TWO_MONTHS)

    assert retention.prune().bodies == 1


def test_an_event_without_a_body_cannot_be_redelivered(alice):
    make_webhook(alice)
    history(alice, "succeeded", TWO_MONTHS)
    before = Delivery.objects.get()
    before.event  # noqa: B018 - loaded before the pruning, as in an open page
    retention.prune()

    for delivery in (before, Delivery.objects.get()):
        with pytest.raises(WebhookStateError, match="no longer kept"):
            redeliver(delivery, actor=PROJECT)
    assert Delivery.objects.count() == 1


def test_a_deleted_event_cannot_be_redelivered(alice):
    make_webhook(alice)
    history(alice, "succeeded", YEAR)
    delivery = Delivery.objects.get()
    retention.prune()

    with pytest.raises(WebhookStateError, match="no longer kept"):
        delivery.redeliver()


def test_a_recently_redelivered_event_is_not_pruned(alice):
    make_webhook(alice)
    history(alice, "succeeded", YEAR)
    Delivery.objects.get().redeliver()
    Delivery.objects.update(state="succeeded")

    assert retention.prune() == retention.Pruned()
    assert left() == (1, 2, 1)


def test_a_redelivery_is_deleted_with_the_original_without_an_update(alice):
    make_webhook(alice)
    event = emit_one(alice)
    Delivery.objects.update(state="given_up")
    again = Delivery.objects.get().redeliver()
    Delivery.objects.filter(pk=again.pk).update(state="succeeded", redelivery_of=None)
    make_older(event, YEAR)
    first, second = Delivery.objects.order_by("pk")
    Delivery.objects.filter(pk=second.pk).update(redelivery_of=first)

    with CaptureQueriesContext(connection) as queries:
        assert retention.prune().deliveries == 2

    update = f"UPDATE {connection.ops.quote_name(Delivery._meta.db_table)}"
    assert [query["sql"] for query in queries if query["sql"].startswith(update)] == []


@pytest.mark.parametrize(
    ("days", "age", "expected"),
    [
        pytest.param(7, timedelta(days=8), (0, 0, 0), id="shorter"),
        pytest.param(7, timedelta(days=6), (1, 1, 1), id="shorter, and younger"),
        pytest.param(400, YEAR, (1, 1, 1), id="longer"),
        pytest.param(400, timedelta(days=401), (0, 0, 0), id="longer, and older"),
    ],
)
def test_the_retention_of_a_type_applies_to_its_bodies_and_attempts(alice, settings, days, age, expected):
    make_webhook(alice, EVENT_TYPE)
    settings.WEBHOOKS_RETENTION_DAYS_BY_TYPE = {EVENT_TYPE: days}
    history(alice, "succeeded", age)

    retention.prune()

    assert left() == expected
    assert all(event.has_body for event in Event.objects.all())


def test_the_retention_of_a_type_does_not_affect_others(alice, settings):
    make_webhook(alice, EVENT_TYPE)
    settings.WEBHOOKS_RETENTION_DAYS_BY_TYPE = {"file.deleted": 1}
    history(alice, "succeeded", timedelta(days=8))

    retention.prune()

    assert left() == (1, 1, 1)


def test_handshakes_are_deleted_like_events(alice):
    webhook = make_webhook(alice, status="pending")
    [handshake] = webhook.deliveries.all()
    DeliveryAttempt.objects.create(delivery=handshake, number=1, result="succeeded", started_at=timezone.now(), url="x")
    Delivery.objects.update(state="succeeded")
    assert retention.prune() == retention.Pruned()

    assert retention.prune(now=timezone.now() + TWO_MONTHS).attempts == 1
    assert retention.prune(now=timezone.now() + YEAR).deliveries == 1


def test_a_deleted_webhook_is_pruned_with_the_last_of_its_history(alice):
    webhook = make_webhook(alice)
    history(alice, "succeeded", YEAR)
    webhook.soft_delete()
    Webhook.objects.update(deleted_at=timezone.now() - YEAR)
    kept = make_webhook(alice)
    counted = retention.prune(is_dry_run=True).webhooks

    assert retention.prune().webhooks == counted == 1
    assert Webhook.objects.get() == kept


def make_replay(webhook, state, age):
    """Create a replay of this age with one delivery."""
    then = timezone.now() - age
    replay = Replay(id=make_id_older(new_id("rpl"), age), webhook=webhook, state=state, since=then, until=then)
    replay.finished_at = then if replay.is_over else None
    replay.save(force_insert=True)
    event = history(webhook.owner, "succeeded", age)
    event.deliveries.update(replay=replay)
    return replay


@pytest.mark.parametrize(
    ("state", "age", "stays"),
    [
        ("done", YEAR, False),
        ("cancelled", YEAR, False),
        ("stopped", YEAR, False),
        ("paused", YEAR, True),
        ("running", YEAR, True),
        ("done", TWO_MONTHS, True),
    ],
)
def test_ended_replays_are_deleted_with_their_deliveries(alice, state, age, stays):
    make_replay(make_webhook(alice), state, age)
    counted = retention.prune(is_dry_run=True)

    assert retention.prune() == counted
    assert (counted.replays, Replay.objects.exists()) == (not stays, stays)


def test_a_replay_with_a_remaining_delivery_is_not_deleted(alice):
    replay = make_replay(make_webhook(alice), "done", YEAR)
    Delivery.objects.get().redeliver()
    Delivery.objects.update(state="succeeded")

    assert retention.prune().replays == 0
    assert Delivery.objects.order_by("pk")[0].replay == replay


@pytest.mark.parametrize(("days", "stays"), [(6, True), (8, False)])
def test_an_unstarted_replay_is_deleted_after_a_week(alice, days, stays):
    replay = make_replay(make_webhook(alice), "ready", timedelta(days=days))
    Delivery.objects.all().delete()

    assert retention.prune().replays == (not stays)
    assert Replay.objects.exists() is stays
    if not stays:
        with pytest.raises(WebhookStateError, match="is no longer kept"):
            start(replay, actor=PROJECT)


def test_a_dry_run_counts_the_rows_that_pruning_deletes(alice):
    make_webhook(alice)
    for age in (YEAR, TWO_MONTHS, timedelta(days=1)):
        history(alice, "succeeded", age)
    counted = retention.prune(is_dry_run=True)

    assert left() == (3, 3, 3)
    assert counted == retention.prune()
    assert (counted.attempts, counted.bodies, counted.events) == (2, 1, 1)


def test_progress_is_reported_for_each_batch(alice, batches_of):
    batches_of(4)
    make_webhook(alice)
    for _ in range(5):
        history(alice, "succeeded", TWO_MONTHS)
    told = []

    retention.prune(progress=told.append)

    # Each batch has two events and their deliveries, each with an attempt and a body.
    assert told == [4, 4, 2]


def test_an_event_with_more_deliveries_than_a_batch_is_a_batch_of_its_own(alice, batches_of):
    batches_of(3)
    for _ in range(4):
        make_webhook(alice)
    events = [emit_one(alice) for _ in range(2)]
    Delivery.objects.update(state="succeeded")
    for event in events:
        make_older(event, YEAR)
    told = []

    retention.prune(progress=told.append)

    assert told == [5, 5]


def test_attempts_count_towards_the_size_of_a_batch(alice, batches_of):
    batches_of(12)
    make_webhook(alice)
    for _ in range(4):
        history(alice, "succeeded", YEAR)
    Delivery.objects.update(attempt_count=4)
    told = []

    retention.prune(progress=told.append)

    # Two events, each with a delivery and notionally four attempts.
    assert told == [6, 6]


def test_slow_batches_shrink_and_quick_ones_grow():
    size = forgetting.BatchSize()
    sizes = []
    for seconds in (0.2, 0.2, 0.2, 0.2, 0.02, 0.001):
        size.adapt(seconds)
        sizes.append(size.rows)

    assert sizes == [100, 50, 25, 20, 20, 30]


@pytest.mark.parametrize(("seconds", "rows"), [(0.001, 200), (0.2, 20)], ids=["quick", "slow"])
def test_the_batch_size_is_reset_for_another_kind_of_rows(seconds, rows):
    size = forgetting.BatchSize()
    for _ in range(20):
        size.adapt(seconds)

    size.begin()

    assert size.rows == rows


def test_pruning_ends_at_its_time_limit(alice, batches_of, monkeypatch):
    batches_of(1)
    make_webhook(alice)
    for _ in range(3):
        history(alice, "succeeded", YEAR)
    monkeypatch.setattr(retention.time, "monotonic", iter(range(1000)).__next__)

    pruned = retention.prune(max_seconds=4)

    assert not pruned.is_complete
    assert 1 <= pruned.events < 3
    assert retention.prune().events == 3 - pruned.events


@pytest.mark.only_on("postgresql", "sqlite")
def test_events_without_a_body_are_not_examined_again(alice):
    for _ in range(3):
        make_older(emit_one(alice), TWO_MONTHS)
    retention.prune()
    before = first_id_at("evt", timezone.now())
    events = Event.objects.filter(type=EVENT_TYPE, pk__lt=before).with_body().order_by("pk")

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Excludes rows of other tests, so that the plan for a table of three rows is that for millions.
            cursor.execute(f"ANALYZE {Event._meta.db_table}")
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
    assert "webhooks_event_body" in events.explain()


@pytest.mark.only_on("postgresql", "mariadb")
@pytest.mark.django_db(transaction=True)
def test_an_event_locked_by_a_redelivery_is_left_for_the_next_run(alice):
    make_webhook(alice)
    event = history(alice, "succeeded", YEAR)

    with locked(Event.objects.select_for_update().filter(pk=event.pk)):
        assert retention.prune() == retention.Pruned()
    assert retention.prune().events == 1


def test_types_are_found_without_reading_every_event(alice):
    for _ in range(5):
        emit_one(alice)
    with CaptureQueriesContext(connection) as queries:
        assert list(retention._Pruning(None, lambda rows: None).event_types()) == [EVENT_TYPE]

    assert len(queries) == 2


def test_references_and_idempotency_keys_are_deleted_with_their_event():
    event = emit(EVENT_TYPE, {"error": "a"}, owner=None, idempotency_key="k", references=["ppt_1"])
    make_older(event, YEAR)

    retention.prune()

    assert (Event.objects.count(), EventReference.objects.count(), IdempotencyKey.objects.count()) == (0, 0, 0)
