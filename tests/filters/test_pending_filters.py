"""Filters that cannot be evaluated during the emission: their deliveries are held, and workers evaluate them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone

from webhooks_app import emit, send_test_event
from webhooks_app.delivery.sql import oldest_due_at
from webhooks_app.event_types import EventData, EventType, registry
from webhooks_app.filters import FILTER_OPERATORS, BaseOperator
from webhooks_app.maintenance.filtering import evaluate_filters
from webhooks_app.models import Delivery, DeliveryAttempt, QueueEntry, Webhook
from webhooks_app.models.hold import is_upcoming, reason_expression
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.routing.preview import try_filter
from webhooks_app.testing import Webhooks

from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, make_older, make_webhook

pytestmark = pytest.mark.django_db

UNREADABLE = {"error": {"$gone": 1}}
MANY = 3000


class Numbers(EventData):
    numbers: list[int]


@pytest.fixture
def numbers_type():
    event_type = EventType(name="numbers.made", description="…", data_model=Numbers, example={"numbers": [1]})
    with registry.temporarily(event_type):
        yield event_type.name


class Failing(BaseOperator):
    name = "$failing"

    def problem(self, operand):
        return ""

    def holds(self, value, operand):
        raise RuntimeError("broken operator")

    def wanted(self, operand):
        return "…"


def break_filter(webhook, source=UNREADABLE):
    Webhook.objects.filter(pk=webhook.pk).update(filter=source)


def write_text(webhook, text):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_app_webhook SET filter = %s WHERE id = %s", [text, webhook.pk[-32:]])


def costly(match=True):
    """Return a filter that takes more steps for ``MANY`` numbers than an emission may."""
    unused = {"$nin": list(range(-50, 0))}
    return {"$and": [{"numbers": unused}, {"numbers": {"$in": [1]} if match else {"$nin": [1]}}]}


def evaluate(after=timedelta(minutes=6)):
    evaluate_filters("default", timezone.now() + after, {})


def hold_of(client, api_key, event):
    path = f"/v1/deliveries/{Delivery.objects.get(event=event).pk}"
    return client.get(path, headers={"Authorization": f"Bearer {api_key}"}).json()["hold"]


@pytest.mark.parametrize("text", ['{"error":', "[" * 10_000, "5", '{"error": NaN}', '{"error": {"$gone": 1}}'])
def test_an_event_is_never_sent_nor_lost_if_the_filter_cannot_be_read(alice, text):
    with Webhooks() as webhooks:
        webhook = make_webhook(alice)
        write_text(webhook, text)

        event = emit_one(alice)
        requests = webhooks.deliver()

        assert requests == []
        assert webhooks.assert_held(event, webhook, reason="filter_pending")
        delivery = Delivery.objects.get()
        assert (delivery.state, delivery.attempt_count, DeliveryAttempt.objects.count()) == ("pending", 0, 0)


def test_a_held_delivery_is_visible_to_its_owner(client, admin_client, alice, api_key):
    webhook = make_webhook(alice)
    break_filter(webhook)
    event = emit_one(alice)

    hold = hold_of(client, api_key, event)
    decisions = client.get(f"/v1/events/{event.pk}/decisions", headers={"Authorization": f"Bearer {api_key}"})
    page = admin_client.get(f"/admin/webhooks_app/delivery/{Delivery.objects.get().pk}/change/")
    listing = admin_client.get("/admin/webhooks_app/delivery/")

    assert (hold["reason"], hold["until"]) == ("filter_pending", None)
    (found,) = decisions.json()["results"]
    assert (found["reason"], found["sent"]) == ("filter_pending", False)
    assert "The filter of the webhook is not evaluated yet" in page.text
    assert "waiting for its filter" in listing.text


def test_a_filter_with_a_problem_is_logged_once(alice, caplog):
    webhook, other = make_webhook(alice), make_webhook(alice)
    break_filter(webhook)
    break_filter(other)

    for error in "abc":
        emit_one(alice, error)
    evaluate()
    break_filter(webhook, {"error": {"$other": 1}})
    emit_one(alice)

    records = [record for record in caplog.records if record.name == "webhooks_app.routing"]
    assert [record.webhook_id for record in records] == [webhook.pk, other.pk, webhook.pk]
    assert not any(record.exc_info for record in records)
    assert "error.$gone: isn't an operator" in records[0].getMessage()


def test_an_operator_of_the_project_that_raises_holds_the_delivery(alice, settings):
    settings.WEBHOOKS_FILTER_OPERATORS = [*FILTER_OPERATORS.built_in, f"{__name__}.Failing"]
    webhook = make_webhook(alice, filter={"error": {"$failing": 1}})

    event = emit_one(alice)

    with Webhooks() as webhooks:
        webhooks.assert_held(event, webhook, reason="filter_pending")


def test_a_repaired_filter_sends_what_matches_in_order_and_ends_the_rest(alice):
    with Webhooks() as webhooks:
        webhook = make_webhook(alice, order="webhook")
        break_filter(webhook)
        first, second, third = (emit_one(alice, error) for error in ("keep 1", "drop", "keep 2"))
        assert webhooks.deliver() == []

        update_webhook(webhook, actor=PROJECT, filter={"error": {"$startsWith": "keep"}})
        requests = webhooks.assert_ordered(first, third, to=webhook)

        assert len(requests) == 2
        dropped = Delivery.objects.get(event=second)
        assert (dropped.state, dropped.state_reason, dropped.attempt_count) == ("cancelled", "filtered", 0)
        webhooks.assert_not_sent(second, webhook, reason="filtered")


def test_a_held_delivery_holds_the_later_ones_of_its_group(alice):
    with Webhooks() as webhooks:
        webhook = make_webhook(alice, order="webhook")
        break_filter(webhook)
        first = emit_one(alice, "1")
        Webhook.objects.update(filter=None)
        second = emit_one(alice, "2")
        QueueEntry.objects.awaiting_filter().update(filter_at=timezone.now() + timedelta(hours=1))

        assert webhooks.deliver() == []
        webhooks.assert_held(second, webhook, reason="ordered", behind=first)
        QueueEntry.objects.awaiting_filter().update(filter_at=timezone.now())

        webhooks.assert_ordered(first, second, to=webhook)


def test_the_end_of_an_earlier_delivery_does_not_release_a_held_one(alice):
    with Webhooks() as webhooks:
        webhook = make_webhook(alice, order="webhook")
        emit_one(alice, "1")
        break_filter(webhook)
        held = emit_one(alice, "2")

        requests = webhooks.deliver()
        QueueEntry.objects.repair()

        assert len(requests) == 1
        webhooks.assert_held(held, webhook, reason="filter_pending")
        assert webhooks.deliver() == []


def test_a_change_of_the_order_does_not_release_a_held_delivery(alice):
    with Webhooks() as webhooks:
        webhook = make_webhook(alice, order="webhook")
        break_filter(webhook)
        held = emit_one(alice)
        webhook.refresh_from_db()

        update_webhook(webhook, actor=PROJECT, order="none")

        assert webhooks.deliver() == []
        webhooks.assert_held(held, webhook, reason="filter_pending")


def test_a_stopped_webhook_cancels_its_held_deliveries(alice):
    webhook = make_webhook(alice)
    break_filter(webhook)
    emit_one(alice)
    webhook.refresh_from_db()

    webhook.disable("test")

    assert Delivery.objects.get().state_reason == "webhook_disabled"
    assert not QueueEntry.objects.exists()


def test_a_held_delivery_expires_with_the_data_of_its_event(alice):
    webhook = make_webhook(alice)
    break_filter(webhook)
    make_older(emit_one(alice), timedelta(days=31))
    recent = emit_one(alice)

    evaluate()

    assert set(Delivery.objects.values_list("state", "state_reason")) == {("cancelled", "expired"), ("pending", "")}
    assert QueueEntry.objects.get().event_id == recent.pk


def test_a_filter_beyond_the_steps_of_an_emission_is_evaluated_by_a_worker(alice, numbers_type):
    with Webhooks() as webhooks:
        matching = make_webhook(alice, numbers_type, filter=costly())
        other = make_webhook(alice, numbers_type, filter=costly(match=False))

        event = emit(numbers_type, {"numbers": list(range(MANY))}, owner=alice)
        small = emit(numbers_type, {"numbers": [1]}, owner=alice)

        webhooks.assert_held(event, matching, reason="filter_pending")
        webhooks.assert_held(event, other, reason="filter_pending")
        assert set(Delivery.objects.filter(event=small).values_list("webhook", flat=True)) == {matching.pk}
        assert {request.webhook_id for request in webhooks.deliver()} == {matching.pk}
        webhooks.assert_not_sent(event, other, reason="filtered")


def test_a_filter_beyond_the_steps_of_a_worker_remains_held_and_is_tried_ever_later(alice, numbers_type, monkeypatch):
    monkeypatch.setattr("webhooks_app.maintenance.filtering.WORKER_STEPS", 5_000)
    make_webhook(alice, numbers_type, filter=costly())
    make_older(emit(numbers_type, {"numbers": list(range(MANY))}, owner=alice), timedelta(hours=2))

    evaluate(timedelta(minutes=6))

    entry = QueueEntry.objects.get()
    assert entry.due_at is None
    assert entry.filter_at > timezone.now() + timedelta(hours=2)


def test_emission_steps_are_the_same_for_every_run(alice, numbers_type):
    make_webhook(alice, numbers_type, filter={"numbers": {"$in": [1]}})

    for number, is_over in ((4_997, False), (4_998, True)):
        event = emit(numbers_type, {"numbers": [2] * number + [1]}, owner=alice)
        assert QueueEntry.objects.awaiting_filter().filter(event=event).exists() is is_over


def test_a_trial_beyond_the_steps_is_refused_with_the_reason(alice, numbers_type):
    webhook = make_webhook(alice, numbers_type)
    event = emit(numbers_type, {"numbers": list(range(MANY))}, owner=alice)

    with pytest.raises(ValidationError, match="takes more than 5000 steps for this event"):
        try_filter(webhook, event, costly())


def test_tests_and_redeliveries_are_sent_although_the_filter_cannot_be_read(alice):
    with Webhooks() as webhooks:
        webhook = make_webhook(alice)
        break_filter(webhook)
        event = emit_one(alice)
        webhook.refresh_from_db()

        tried = send_test_event(webhook, EVENT_TYPE, actor=PROJECT)
        end_deliveries(Delivery.objects.filter(event=event), state="given_up")
        again = Delivery.objects.get(event=event).redeliver()
        requests = webhooks.deliver()

        assert {request.delivery_id for request in requests} == {tried.pk, again.pk}


def test_a_platform_webhook_is_held_for_every_owners_events(alice, bob):
    webhook = make_webhook(None)
    break_filter(webhook)

    events = [emit_one(alice), emit_one(bob)]

    with Webhooks() as webhooks:
        for event in events:
            webhooks.assert_held(event, webhook, reason="filter_pending")


@pytest.mark.only_on("postgresql")
def test_an_emission_with_a_held_delivery_remains_one_statement_after_the_evaluation(alice):
    make_webhook(alice)
    break_filter(make_webhook(alice))

    event = emit_one(alice)

    rows = QueueEntry.objects.filter(event=event).values_list("due_at", "filter_at")
    assert sorted((due_at is None, filter_at is None) for due_at, filter_at in rows) == [(False, True), (True, False)]


def test_held_deliveries_are_counted_as_held_and_do_not_wake_workers(alice):
    break_filter(make_webhook(alice))
    emit_one(alice)
    now = timezone.now() + timedelta(hours=1)

    assert oldest_due_at("default", now) is None
    held = QueueEntry.objects.annotate(hold=reason_expression(now))
    assert list(held.values_list("hold", flat=True)) == ["filter_pending"]
    assert not QueueEntry.objects.filter(is_upcoming()).exists()


def test_a_webhook_with_many_costly_events_does_not_delay_another(alice, bob, numbers_type, monkeypatch):
    monkeypatch.setattr("webhooks_app.maintenance.filtering.FILTERING_SECONDS", 0.0)
    costing, cheap = (make_webhook(owner, numbers_type, filter=costly()) for owner in (alice, bob))
    for _ in range(3):
        emit(numbers_type, {"numbers": list(range(MANY))}, owner=alice)
    emit(numbers_type, {"numbers": list(range(MANY))}, owner=bob)
    facts, now = {}, timezone.now() + timedelta(minutes=1)

    for _ in range(2):
        assert evaluate_filters("default", now, facts) is not None

    pending = QueueEntry.objects.awaiting_filter()
    assert (pending.filter(webhook=costing).count(), pending.filter(webhook=cheap).count()) == (2, 0)
