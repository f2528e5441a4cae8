"""A replay is counted before it sends anything."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from webhooks_app import emit
from webhooks_app.event_types import registry
from webhooks_app.event_types.operational import WEBHOOK_DISABLED
from webhooks_app.exceptions import WebhookStateError
from webhooks_app.models import Delivery, Event, Replay, WebhookHealth
from webhooks_app.operations.sending import send_test_event
from webhooks_app.replays import planning
from webhooks_app.replays.planning import MARGIN, missed_since

from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, make_older, make_webhook, plan_replay
from .conftest import emit_all, emit_with, plan, started, step

pytestmark = pytest.mark.django_db

OUTCOMES = ("missed", "given_up", "cancelled", "succeeded", "pending")


@pytest.mark.parametrize(
    ("states", "found"),
    [
        (None, ["missed", "given_up", "cancelled"]),
        (["missed"], ["missed"]),
        (["succeeded", "given_up"], ["given_up", "succeeded"]),
    ],
    ids=["default", "missed", "chosen"],
)
def test_events_are_selected_by_their_outcome(webhook, states, found):
    for outcome in OUTCOMES:
        emit_with(webhook, outcome)

    replay = plan(webhook, states=states)

    assert (replay.state, replay.matched, replay.examined, replay.queued) == ("ready", len(found), 5, 0)
    assert sorted(each["state"] for each in replay.sample) == sorted(found)
    assert not Delivery.objects.filter(replay=replay).exists()


def test_the_newest_delivery_decides_and_a_pending_one_excludes_the_event(webhook):
    mended, failed_again, open_again = (emit_with(webhook, "given_up") for _ in range(3))
    for event, state in ((mended, "succeeded"), (failed_again, "given_up"), (open_again, "pending")):
        again = event.deliveries.get().redeliver()
        end_deliveries(Delivery.objects.filter(pk=again.pk), state=state)

    assert [each["event_id"] for each in plan(webhook).sample] == [failed_again.pk]


def test_the_selection_can_be_limited_to_subscribed_types(webhook, alice):
    failed = emit_with(webhook, "missed")
    uploaded = emit("file.uploaded", registry.get("file.uploaded").example, owner=alice)
    uploaded.deliveries.all().delete()
    emit("user.registered", registry.get("user.registered").example, owner=alice)

    assert plan(webhook).matched == 2
    assert [each["event_id"] for each in plan(webhook, event_types=["file.uploaded"]).sample] == [uploaded.pk]
    assert [each["type"] for each in plan(webhook, event_types=[EVENT_TYPE]).sample] == [failed.type]


def test_events_for_other_webhooks_are_not_found(webhook, alice, bob):
    theirs = make_webhook(bob)
    emit_with(theirs, "missed")
    send_test_event(webhook, EVENT_TYPE)
    Delivery.objects.all().delete()
    stripped = emit_with(webhook, "missed")
    Event.objects.filter(pk=stripped.pk).update(body="")

    assert plan(webhook).matched == 0


def test_a_webhook_of_the_platform_gets_events_of_all_owners(alice, bob):
    platform = make_webhook(None)
    type(platform).objects.update(created_at=timezone.now() - timedelta(days=1))
    platform.refresh_from_db()
    for owner in (alice, bob, None):
        emit_one(owner)
    Delivery.objects.all().delete()

    assert plan(platform).matched == 3


def test_operational_events_about_the_webhook_itself_are_excluded(webhook):
    platform = make_webhook(None, "webhook.disabled")
    type(platform).objects.filter(pk=platform.pk).update(created_at=timezone.now() - timedelta(days=1))
    platform.refresh_from_db()
    for subject in (webhook, platform):
        example = WEBHOOK_DISABLED.example | {"webhook_id": subject.pk}
        body = json.dumps({"id": "evt_1", "type": "webhook.disabled", "data": example})
        Event.objects.create(type="webhook.disabled", body=body, created_at=timezone.now())

    (found,) = plan(platform).sample

    assert json.loads(Event.objects.get(pk=found["event_id"]).body)["data"]["webhook_id"] == webhook.pk


def test_the_selection_is_limited_by_time_and_by_the_creation_of_the_webhook(webhook):
    old, middle, new = (emit_with(webhook, "missed") for _ in range(3))
    make_older(old, timedelta(days=3))
    middle = make_older(middle, timedelta(days=2))
    now = timezone.now()

    replay = plan(webhook, since=now - timedelta(days=2.5), until=now - timedelta(days=1))
    assert [each["event_id"] for each in replay.sample] == [middle.pk]
    assert plan(webhook, since=now - timedelta(days=5)).matched == 3

    type(webhook).objects.update(created_at=now - timedelta(days=1))
    assert [each["event_id"] for each in plan(webhook, since=now - timedelta(days=5)).sample] == [new.pk]


def test_a_long_count_continues_in_the_background(webhook, monkeypatch):
    monkeypatch.setattr(planning, "MOST_EVENTS", 3)
    emit_all(webhook, "missed", 7)

    replay = plan(webhook, max_seconds=0)
    pauses = [step(replay) for _ in range(3)]

    assert pauses == [0, 0, None]
    assert (replay.state, replay.matched, len(replay.sample)) == ("ready", 7, 7)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"states": []}, "states"),
        ({"states": ["lost"]}, "states"),
        ({"rate": 0.01}, "rate"),
        ({"rate": float("nan")}, "rate"),
    ],
    ids=["no-state", "unknown-state", "slow", "no-number"],
)
def test_invalid_fields_are_refused(webhook, fields, field):
    with pytest.raises(ValidationError) as refusal:
        plan(webhook, **fields)

    assert list(refusal.value.message_dict) == [field]
    assert not Replay.objects.exists()


def test_only_subscribed_types_can_be_replayed(webhook):
    with pytest.raises(WebhookStateError, match=r"is not subscribed to: user\.registered\."):
        plan(webhook, event_types=["file.uploaded", "user.registered"])


@pytest.mark.parametrize(
    ("since", "until"),
    [(1, None), (-100_000, -90_000), (-730_000, -100_000)],
    ids=["future", "before-the-webhook", "before-everything"],
)
def test_an_empty_time_range_contains_no_events(webhook, since, until):
    emit_with(webhook, "missed")
    days = {"since": since, "until": until}

    moments = {name: timezone.now() + timedelta(days=number) for name, number in days.items() if number}
    replay = plan_replay(webhook, **moments)

    assert (replay.state, replay.matched) == ("done", 0)
    assert webhook.created_at <= replay.since <= replay.until <= timezone.now() + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("since", "until"), [(-1, -2), (-1, -1), (None, -8)], ids=["backwards", "nothing", "before-its-default"]
)
def test_an_end_before_the_beginning_is_refused(webhook, since, until):
    now = timezone.now()
    days = {"since": since, "until": until}

    with pytest.raises(ValidationError) as refusal:
        plan_replay(webhook, **{name: now + timedelta(days=number) for name, number in days.items() if number})

    ((field, messages),) = refusal.value.message_dict.items()
    assert (field, messages[0][:18]) == ("until", "Give a time after ")
    assert not Replay.objects.exists()


def test_a_replay_for_a_deleted_webhook_is_refused(webhook):
    webhook.soft_delete()

    with pytest.raises(WebhookStateError, match="is deleted"):
        plan_replay(webhook)


def test_the_number_of_unfinished_replays_of_a_webhook_is_limited(webhook, monkeypatch):
    monkeypatch.setattr(planning, "MOST_OPEN", 3)
    other = make_webhook(webhook.owner)
    emit_with(webhook, "missed").deliveries.all().delete()
    started(webhook)
    first, second = plan(webhook), plan(webhook)

    with pytest.raises(WebhookStateError, match=r"has 3 replays that are .*Cancel one of them first\."):
        plan(webhook)

    first.cancel()
    second.cancel()
    assert [plan(webhook).state, plan(other).state] == ["ready", "ready"]


def succeed_days_ago(webhook, days):
    event = make_older(emit_with(webhook, "succeeded"), timedelta(days=days))
    moment = timezone.now() - timedelta(days=days)
    event.deliveries.update(finished_at=moment)
    return moment


def is_about(found, expected):
    return abs(found - expected) < timedelta(minutes=1)


def test_missed_events_begin_with_the_last_success_before_the_failures(webhook):
    last = succeed_days_ago(webhook, 9)
    make_older(emit_with(webhook, "given_up"), timedelta(days=8))
    webhook.disable("Out of order.")

    assert is_about(missed_since(webhook), last - MARGIN)


def fail(webhook, *, since, until, **fields):
    """Create a failing period of the webhook between these days ago."""
    health = WebhookHealth(webhook=webhook, **fields)
    health.note_given_up(timezone.now() - timedelta(days=since), 1, None)
    health.end_period(timezone.now() - timedelta(days=until))
    health.save()


def test_missed_events_include_the_period_ended_by_enabling(webhook):
    last = succeed_days_ago(webhook, 9)
    fail(webhook, since=8.9, until=1)
    emit_with(webhook, "succeeded")

    assert is_about(missed_since(webhook), last - MARGIN)


def test_missed_events_of_a_webhook_paused_while_failing_begin_with_its_last_success(webhook):
    last = succeed_days_ago(webhook, 20)
    fail(webhook, since=19, until=15, last_success_at=last)
    webhook.pause()

    assert is_about(missed_since(webhook), last - MARGIN)


def test_a_failing_period_that_ended_long_ago_is_ignored(webhook):
    succeed_days_ago(webhook, 20)
    fail(webhook, since=19, until=15, last_success_at=timezone.now())

    assert is_about(missed_since(webhook), timezone.now() - timedelta(days=7))


@pytest.mark.parametrize(("age", "expected"), [(60, 7), (2, 2)], ids=["old", "new"])
def test_without_failures_the_range_is_a_week(webhook, age, expected):
    webhook.created_at = timezone.now() - timedelta(days=age)
    emit_with(webhook, "succeeded")

    assert is_about(missed_since(webhook), timezone.now() - timedelta(days=expected))


def test_a_webhook_without_a_success_missed_everything(webhook):
    webhook.disable("Out of order.")

    assert missed_since(webhook) == webhook.created_at
