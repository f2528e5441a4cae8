"""A replay queues each event once, in any number of processes, and leaves room for live events."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.db import OperationalError, connections
from django.utils import timezone

from webhooks_app.exceptions import WebhookStateError
from webhooks_app.maintenance.jobs import JOBS, advance_replays, run_due
from webhooks_app.models import AuditEntry, Delivery, Event, MaintenanceJob, QueueEntry, Replay, Webhook
from webhooks_app.models.audit import Actor, acting
from webhooks_app.models.webhook import Order
from webhooks_app.operations import replays
from webhooks_app.operations.actors import PROJECT
from webhooks_app.replays import planning
from webhooks_app.replays import runner as carrying
from webhooks_app.replays.runner import advance

from ..support.rows import emit_one, end_deliveries, make_webhook
from .conftest import carry_to_the_end, emit_all, emit_with, finish_pending, plan, queued_by, started, step

pytestmark = pytest.mark.django_db


def test_matches_are_queued_once_in_order_and_marked(webhook, alice):
    given_up = emit_with(webhook, "given_up")
    missed = emit_all(webhook, "missed", 2)
    replay = started(webhook, requested_by=alice)

    carry_to_the_end(replay)

    assert (replay.state, replay.queued, replay.matched) == ("done", 3, 3)
    assert queued_by(replay) == sorted([given_up.pk, *missed])
    of_given_up = replay.deliveries.get(event=given_up)
    assert of_given_up.redelivery_of == given_up.deliveries.order_by("pk").first()
    assert (of_given_up.requested_by, of_given_up.kind, of_given_up.max_attempts) == (alice, "event", 4)
    assert replay.deliveries.filter(redelivery_of=None).count() == 2


def test_events_after_the_planning_are_not_included(webhook):
    early = emit_all(webhook, "missed", 2)
    replay = plan(webhook)
    event = emit_with(webhook, "missed")
    later = Event.objects.filter(pk=event.pk)
    later.update(id="evt_" + f"{int(timezone.now().timestamp() * 1000) + 5000:012x}" + event.pk[-20:])
    replay.start()

    carry_to_the_end(replay)

    assert queued_by(replay) == early


def test_events_delivered_meanwhile_are_not_sent_again(webhook):
    first, second = (emit_with(webhook, "given_up") for _ in range(2))
    replay = started(webhook)
    again = first.deliveries.get().redeliver()
    end_deliveries(Delivery.objects.filter(pk=again.pk), state="succeeded")

    carry_to_the_end(replay)

    assert queued_by(replay) == [second.pk]
    assert (replay.matched, replay.queued) == (2, 1)


PRUNED = pytest.mark.parametrize("places", [[0], [1], [2], [0, 1, 2]], ids=["first", "middle", "last", "all"])


@PRUNED
@pytest.mark.parametrize("order", [Order.NONE, Order.WEBHOOK])
def test_events_pruned_while_a_step_reads_them_do_not_end_a_replay(webhook, order, places, monkeypatch):
    Webhook.objects.update(order=order)
    events = emit_all(webhook, "missed", 7)
    replay = started(webhook)
    prune_while_reading(monkeypatch, places)

    carry_to_the_end(replay)

    assert (replay.state, replay.examined) == ("done", 7)
    assert sorted(queued_by(replay)) == [event for place, event in enumerate(events) if place not in places]


@PRUNED
def test_events_pruned_while_a_step_reads_them_do_not_end_a_count(webhook, places, monkeypatch):
    emit_all(webhook, "missed", 7)
    prune_while_reading(monkeypatch, places)

    replay = plan(webhook)

    assert (replay.state, replay.matched) == ("ready", 7 - len(places))


def prune_while_reading(monkeypatch: pytest.MonkeyPatch, places: list[int]) -> None:
    """Delete some of the three events that the next step reads, after it has read their identifiers."""
    monkeypatch.setattr(planning, "LEAST_EVENTS", 3)
    monkeypatch.setattr(planning, "MOST_EVENTS", 3)
    next_ids = planning._next_ids

    def read(using: str, replay: Replay, size: int) -> list[str]:
        ids = next_ids(using, replay, size)
        monkeypatch.setattr(planning, "_next_ids", next_ids)
        Event.objects.filter(pk__in=[ids[place] for place in places]).delete()
        return ids

    monkeypatch.setattr(planning, "_next_ids", read)


def test_the_number_of_deliveries_before_a_live_event_is_limited(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 2
    emit_all(webhook, "missed", 30)
    replay = started(webhook)

    step(replay)
    step(replay)
    assert webhook.deliveries.pending().count() == 4
    emit_one(webhook.owner)
    assert step(replay) == carrying.SHORTLY
    assert replay.queued == 4

    finish_pending()
    step(replay)
    assert replay.queued == 8


def test_nothing_is_queued_during_a_backlog(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 2
    emit_with(webhook, "missed")
    replay = started(webhook)
    emit_all(webhook, "pending", 9)

    step(replay)

    assert replay.queued == 0


def test_a_rate_limited_webhook_has_about_one_second_of_deliveries_queued(webhook):
    emit_all(webhook, "missed", 5)
    Webhook.objects.update(rate_limit=2.5)
    replay = started(webhook)

    step(replay)

    assert replay.queued == 3


def test_the_rate_of_queueing_is_limited(webhook):
    emit_all(webhook, "missed", 40)
    replay = started(webhook, rate=10)
    now = timezone.now()

    counts = []
    for seconds in (0, 0, 0.5, 1, 1):
        step(replay, now + timedelta(seconds=seconds))
        counts.append(replay.queued)

    assert counts == [11, 11, 16, 21, 21]


def test_a_pause_stops_queueing_and_resuming_continues_it(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 1
    events = emit_all(webhook, "missed", 10)
    replay = started(webhook)
    step(replay)
    replay.pause()
    finish_pending()

    assert step(replay) is None
    assert (replay.state, queued_by(replay)) == ("paused", events[:2])
    replay.resume()
    carry_to_the_end(replay)

    assert queued_by(replay) == events
    assert replay.queued == 10


def test_cancelling_a_replay_cancels_its_unclaimed_deliveries(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 2
    emit_all(webhook, "missed", 6)
    other = emit_one(webhook.owner)
    replay = started(webhook)
    step(replay)
    being_sent = replay.deliveries.first()
    QueueEntry.objects.filter(pk=being_sent.pk).update(claimed_at=timezone.now())

    replay.cancel()

    assert (replay.state, replay.finished_at is None, step(replay)) == ("cancelled", False, None)
    assert set(replay.deliveries.exclude(pk=being_sent.pk).values_list("state", "state_reason")) == {
        ("cancelled", "replay_cancelled")
    }
    assert set(webhook.deliveries.pending()) == {being_sent, other.deliveries.get()}


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (lambda webhook: webhook.disable("Enough."), "disabled"),
        (lambda webhook: webhook.fail("Wrong challenge."), "failed its verification"),
        (lambda webhook: webhook.soft_delete(), "deleted"),
    ],
    ids=["disabled", "failed", "deleted"],
)
def test_a_stopped_webhook_stops_the_replay_with_the_reason(webhook, settings, stop, reason):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 1
    emit_all(webhook, "missed", 6)
    replay = started(webhook)
    step(replay)
    stop(webhook)

    assert step(replay) is None
    assert replay.state == "stopped"
    assert reason in replay.state_reason
    assert replay.queued == 2
    with pytest.raises(WebhookStateError):
        replay.resume()


def test_a_replay_resumed_after_enabling_queues_cancelled_and_remaining_events(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 1
    events = emit_all(webhook, "missed", 10)
    replay = started(webhook, states=["missed"])
    step(replay)
    end_deliveries(Delivery.objects.filter(event=events[1]), state="given_up")
    for _ in range(2):
        webhook.disable("Enough.")
        step(replay)
        webhook.activate()
        replay.resume()
        step(replay)

    carry_to_the_end(replay)

    assert replay.queued == 10
    assert sorted(replay.deliveries.exclude(state="cancelled").values_list("event_id", flat=True)) == events


def test_cancelled_deliveries_are_queued_again_once(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 1
    emit_all(webhook, "missed", 5)
    replay = started(webhook)
    step(replay)
    webhook.disable("Enough.")
    webhook.activate()

    for _ in range(2):
        replay.pause()
        replay.resume()

    assert replay.queued == 0
    carry_to_the_end(replay)
    assert replay.queued == 5


def test_a_manual_redelivery_does_not_prevent_resuming(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 1
    events = emit_all(webhook, "missed", 5)
    replay = started(webhook)
    for _ in range(2):
        step(replay)
        webhook.disable("Enough.")
        webhook.activate()
        for delivery in replay.deliveries.filter(event__in=events[:2]):
            delivery.redeliver()
        finish_pending()
        replay.pause()
        replay.resume()

    carry_to_the_end(replay)

    assert replay.state == "done"
    assert set(webhook.deliveries.exclude(state="cancelled").values_list("event_id", flat=True)) == set(events)


@pytest.mark.parametrize("hold", [Webhook.pause, Webhook.await_verification], ids=["paused", "unverified"])
def test_a_replay_waits_while_the_webhook_is_on_hold(webhook, hold):
    emit_with(webhook, "missed")
    replay = started(webhook)
    hold(webhook)

    assert step(replay) == carrying.MUCH_LATER
    assert (replay.state, replay.queued) == ("running", 0)


def test_only_one_replay_of_a_webhook_runs_at_a_time(webhook):
    emit_with(webhook, "missed")
    first, second = started(webhook), plan(webhook)

    with pytest.raises(WebhookStateError, match=f"{first.pk} of this webhook is running"):
        replays.start(second, actor=PROJECT)
    replays.pause(first, actor=PROJECT)
    replays.start(second, actor=PROJECT)

    assert second.state == "running"


@pytest.mark.parametrize(
    ("state", "verbs"),
    [
        ("counting", {"cancel"}),
        ("ready", {"start", "cancel"}),
        ("running", {"pause", "cancel"}),
        ("paused", {"resume", "cancel"}),
        ("stopped", {"resume", "cancel"}),
        ("done", set()),
        ("cancelled", set()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_permitted_actions_depend_on_the_state(webhook, state, verbs):
    replay = plan(webhook)

    for verb in ("start", "pause", "resume", "cancel"):
        type(replay).objects.update(state=state)
        refused = pytest.raises(WebhookStateError, match=f"is {state}")
        with nullcontext() if verb in verbs else refused:
            getattr(replays, verb)(replay, actor=PROJECT)


def test_an_event_without_a_body_is_skipped(webhook, monkeypatch):
    gone, kept = (emit_with(webhook, "missed") for _ in range(2))
    replay = started(webhook)
    look = carrying.look

    def look_too_early(*args):
        found = look(*args)
        Event.objects.filter(pk=gone.pk).update(body="")
        return found

    monkeypatch.setattr(carrying, "look", look_too_early)
    carry_to_the_end(replay)

    assert queued_by(replay) == [kept.pk]
    assert replay.queued == 1


def test_a_failed_step_is_rolled_back(webhook, monkeypatch):
    events = emit_all(webhook, "missed", 3)
    replay = started(webhook)

    def fail(*args):
        raise RuntimeError("Killed here.")

    with monkeypatch.context() as patch:
        patch.setattr(carrying, "_move", fail)
        with pytest.raises(RuntimeError):
            step(replay)
    replay.refresh_from_db()
    assert (replay.queued, queued_by(replay)) == (0, [])

    carry_to_the_end(replay)
    assert queued_by(replay) == events


def test_the_end_of_a_replay_is_logged_with_its_counts(webhook, caplog, django_capture_on_commit_callbacks):
    emit_with(webhook, "missed")
    replay = started(webhook)

    with caplog.at_level("INFO", "webhooks_app.replays"), django_capture_on_commit_callbacks(execute=True):
        carry_to_the_end(replay)

    (record,) = [record for record in caplog.records if record.name == "webhooks_app.replays"]
    assert record.getMessage().startswith(f"Replay {replay.pk} is done after 1 of 1 events.")
    assert (record.replay_id, record.webhook_id, record.state, record.queued) == (replay.pk, webhook.pk, "done", 1)


def test_the_end_of_a_replay_without_events_is_logged(webhook, caplog, django_capture_on_commit_callbacks):
    with caplog.at_level("INFO", "webhooks_app.replays"), django_capture_on_commit_callbacks(execute=True):
        replay = plan(webhook)

    (record,) = [record for record in caplog.records if record.name == "webhooks_app.replays"]
    assert record.getMessage().startswith(f"Replay {replay.pk} is done after 0 of 0 events.")


def test_the_actions_on_a_replay_are_audited(webhook, alice):
    emit_with(webhook, "missed")
    with acting(Actor(account=alice)):
        replay = started(webhook, requested_by=alice)
        replay.pause()
        replay.cancel()

    entries = AuditEntry.objects.filter(subject=replay.pk).order_by("pk")
    assert sorted(entries.values_list("action", "actor_name", "owner")) == [
        (f"replay.{what}", "alice", alice.pk) for what in ("cancelled", "paused", "planned", "started")
    ]
    assert entries.get(action="replay.paused").changes == {"state": ["running", "paused"]}


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_queue_each_event_once(webhook, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 3
    events = emit_all(webhook, "missed", 60)
    replay = started(webhook, rate=10_000)
    ready = threading.Barrier(2)

    def carry():
        ready.wait()
        try:
            for _ in range(400):
                advance("default", replay.pk, timezone.now())
                finish_pending()
                replay_state = type(replay).objects.get(pk=replay.pk).state
                if replay_state == "done":
                    break
        finally:
            connections.close_all()

    carriers = [threading.Thread(target=carry) for _ in range(2)]
    for carrier in carriers:
        carrier.start()
    for carrier in carriers:
        carrier.join()

    replay.refresh_from_db()
    assert (replay.state, replay.queued) == ("done", 60)
    assert sorted(replay.deliveries.values_list("event_id", flat=True)) == events


def test_the_job_advances_all_active_replays_in_turn(webhook, alice):
    others = make_webhook(alice), make_webhook(alice)
    emit_all(webhook, "missed", 3)
    Delivery.objects.all().delete()
    replays = [started(webhook), started(others[0]), plan(others[1], max_seconds=0)]
    facts = {}

    while advance_replays("default", timezone.now(), facts) is not None:
        pass

    for replay in replays:
        replay.refresh_from_db()
    assert [replay.state for replay in replays] == ["done", "done", "ready"]
    assert facts["after"] in {replay.pk for replay in replays}


def test_a_failing_replay_is_stopped_and_the_next_one_continues(webhook, alice, monkeypatch):
    other = make_webhook(alice)
    emit_with(webhook, "missed").deliveries.all().delete()
    failing, healthy = started(webhook), started(other)

    def fail(using, replay_id, now):
        if replay_id == failing.pk:
            raise RuntimeError("Not to be carried.")
        return advance(using, replay_id, now)

    monkeypatch.setattr("webhooks_app.maintenance.jobs.advance", fail)
    advance_replays("default", timezone.now(), {})

    failing.refresh_from_db()
    healthy.refresh_from_db()
    assert (failing.state, healthy.state) == ("stopped", "done")
    assert failing.state_reason.startswith("It was stopped by an error: RuntimeError")
    failing.resume()


def test_an_unavailable_database_stops_no_replay(webhook, monkeypatch):
    emit_with(webhook, "missed")
    replay = started(webhook)

    def fail(using, replay_id, now):
        raise OperationalError("The database is gone.")

    monkeypatch.setattr("webhooks_app.maintenance.jobs.advance", fail)
    with pytest.raises(OperationalError):
        advance_replays("default", timezone.now(), {})

    replay.refresh_from_db()
    assert replay.state == "running"


def test_the_job_of_a_lost_worker_is_soon_taken_over(webhook):
    (job,) = [job for job in JOBS if job.name == "replays"]
    emit_with(webhook, "missed")
    replay = started(webhook)
    now = timezone.now()
    MaintenanceJob.objects.ensure(["replays"])
    MaintenanceJob.objects.update(next_run_at=now)
    assert MaintenanceJob.objects.get(name="replays").take(now, now + timedelta(seconds=job.lost_after_seconds))

    run_due("default", lambda: now + timedelta(seconds=5), [job])

    replay.refresh_from_db()
    assert replay.state == "done"
