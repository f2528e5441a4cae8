"""Rows with hostile values in any column: each job goes on with the healthy rows."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.models import (
    Delivery,
    Event,
    MaintenanceJob,
    QueueEntry,
    QueueLane,
    Replay,
    Rollup,
    Tally,
    Webhook,
    WebhookHealth,
)
from webhooks_app.replays.planning import look

from ...support.hostile import make_victims, spoiled
from ...support.rows import make_webhook
from ..rollups.conftest import make_tally

pytestmark = pytest.mark.django_db(transaction=True)

PENDING = {"filter": {"error": {"$ne": "another"}}, "event_types": ["ppt.generation.failed"]}


def run_jobs(times=1):
    """Run each job several times, and return the errors of the last runs."""
    for _ in range(times):
        MaintenanceJob.objects.ensure([job.name for job in JOBS])
        MaintenanceJob.objects.update(next_run_at=timezone.now() - timedelta(hours=1))
        run_due("default", timezone.now)
    return {name: error for name, error in MaintenanceJob.objects.values_list("name", "error") if error}


def wait_for_jobs(is_done):
    ends_at = time.monotonic() + 200
    while not is_done():
        assert time.monotonic() < ends_at, run_jobs()
        run_jobs()


@pytest.fixture
def healthy(bob):
    (delivery,) = make_victims(bob, 1, **PENDING)
    return delivery


@pytest.mark.parametrize("model", [Webhook, Event, QueueEntry, QueueLane, Delivery])
def test_filters_of_healthy_rows_are_evaluated(alice, healthy, model):
    spoiled(model, partial(make_pending, alice), leave=("filter_at",))
    QueueEntry.objects.filter(pk=healthy.pk).await_filter()

    wait_for_jobs(lambda: not QueueEntry.objects.awaiting_filter().filter(pk=healthy.pk).exists())

    assert run_jobs() == {}


def make_pending(owner, number):
    deliveries = make_victims(owner, number, **PENDING)
    QueueEntry.objects.filter(webhook__owner=owner).await_filter()
    return deliveries


@pytest.mark.parametrize("model", [Event, Delivery])
def test_a_replay_continues_after_hostile_events(alice, model):
    hostile = spoiled(model, partial(make_victims, alice, **PENDING))
    (healthy,) = make_victims(alice, 1, **PENDING)
    QueueEntry.objects.all().delete()
    Delivery.objects.update(state="given_up")
    replay = plan(healthy.webhook_id, minutes=60)

    wait_for_jobs(lambda: Replay.objects.filter(pk=replay.pk, state="ready").exists())

    replay.refresh_from_db()
    assert len(hostile) < replay.examined
    assert replay.matched
    replay.cursor = ""
    assert healthy.event_id in {match.event_id for match in look("default", replay).matches}
    assert run_jobs() == {}


def test_a_replay_for_a_hostile_webhook_is_stopped_and_the_others_continue(alice, healthy):
    hostile = spoiled(Webhook, partial(make_victims, alice, **PENDING))
    replays = [plan(each.webhook_id, minutes=0) for each in hostile]
    healthy_replay = plan(healthy.webhook_id, minutes=60)

    wait_for_jobs(lambda: Replay.objects.filter(pk=healthy_replay.pk, state="ready").exists())
    wait_for_jobs(lambda: not Replay.objects.under_way().exists())

    states = Replay.objects.filter(pk__in=[each.pk for each in replays]).values_list("state", "state_reason")
    assert set(states) >= {("done", "")}
    assert {reason[:26] for state, reason in states if state == "stopped"} <= {"It was stopped by an error"}
    assert run_jobs() == {}


def plan(webhook_id, minutes):
    now = timezone.now()
    times = {"since": now - timedelta(minutes=minutes), "until": now + timedelta(minutes=minutes)}
    (replay,) = Replay.objects.bulk_create([Replay(webhook_id=webhook_id, **times)])
    return replay


@pytest.mark.parametrize("model", [Webhook, Event, Delivery])
def test_results_of_healthy_webhooks_are_folded(alice, healthy, model):
    make_webhook(None, "delivery.given_up", "webhook.failing", "webhook.disabled")
    hostile = spoiled(model, partial(make_victims, alice))
    give_up([*hostile, healthy])

    wait_for_jobs(lambda: not Tally.objects.exists())

    assert Rollup.objects.filter(webhook_id=healthy.webhook_id, resolution="day", given_up=1).exists()
    told = [json.loads(body)["data"]["delivery_id"] for body in told_about("delivery.given_up")]
    assert healthy.pk in told
    assert run_jobs() == {}


def test_failing_webhooks_are_disabled_beside_hostile_ones(alice, healthy, settings):
    settings.WEBHOOKS_HEALTH_MAILS = False
    make_webhook(None, "webhook.failing", "webhook.disabled")
    hostile = spoiled(Webhook, partial(make_victims, alice))
    for delivery in [*hostile, healthy]:
        make_failing(delivery.webhook_id)

    run_jobs()

    assert Webhook.objects.filter(pk=healthy.webhook_id, status="disabled").exists()
    assert healthy.webhook_id in [json.loads(body)["data"]["webhook_id"] for body in told_about("webhook.disabled")]


def give_up(deliveries):
    ids = [each.pk for each in deliveries]
    Delivery.objects.filter(pk__in=ids).update(state="given_up")
    QueueEntry.objects.filter(pk__in=ids).delete()
    counters = {each.webhook_id: {"given_up": 1, "given_up_since_success": 1} for each in deliveries}
    make_tally(timezone.now(), [pk.removeprefix("dlv_") for pk in ids], **counters)


def make_failing(webhook_id):
    now = timezone.now()
    times = {"given_up_since": now - timedelta(days=300), "last_given_up_at": now}
    WebhookHealth.objects.create(webhook_id=webhook_id, given_up_count=1000, **times)


def told_about(event_type):
    return Event.objects.filter(type=event_type).values_list("body", flat=True)


@pytest.mark.parametrize(
    "counts", ["{", "[]", "5", '{"webhooks": 7}', '{"webhooks": {"x": 1}, "given_up": []}', "null"]
)
def test_a_hostile_tally_does_not_stop_the_others(healthy, counts):
    Tally.objects.create(recorded_at=timezone.now(), counts=counts)
    give_up([healthy])

    run_jobs(3)

    assert Rollup.objects.filter(webhook_id=healthy.webhook_id, resolution="day", given_up=1).exists()
