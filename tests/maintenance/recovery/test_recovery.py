"""Automatic recovery: attempts while the receiver fails, and a replay of everything missed after its first success."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise

import pytest

from webhooks_app.database.clock import following
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.health import take_in
from webhooks_app.maintenance.recovery import LEAST_PAUSE_SECONDS, recover
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import AuditEntry, Delivery, Episode, Event, QueueEntry, Replay, Webhook
from webhooks_app.models.episode import DELAYS
from webhooks_app.models.standing import health_of
from webhooks_app.operations import lifecycle, replays
from webhooks_app.operations.actors import PROJECT, ProjectCode
from webhooks_app.operations.registration import update_webhook

from ...support.rows import make_webhook

pytestmark = pytest.mark.django_db

OVER_HOURS = pytest.mark.only_on("sqlite")
"""Hundreds of runs of jobs whose statements the other tests execute on every database."""


def minutes_between(moments):
    return [round((later - earlier) / timedelta(minutes=1)) for earlier, later in pairwise(moments)]


def test_the_oldest_missed_event_is_sent_again_at_growing_intervals(outage):
    events = outage.emit(3)
    outage.work()
    given_up_at = outage.clock()

    outage.wait(4 * 60)

    assert minutes_between([given_up_at, *outage.attempts]) == [1, 5, 15, 30, 60, 60, 60]
    attempts = Delivery.objects.filter(purpose="recovery").order_by()
    assert set(attempts.values_list("event", "attempt_count", "state")) == {(min(events), 1, "given_up")}
    assert not attempts.filter(redelivery_of=None).exists()
    assert outage.replays == []


def test_everything_missed_is_delivered_after_a_successful_attempt(outage):
    events = outage.emit(20)
    outage.work()
    outage.wait(10)
    assert outage.received == []

    outage.answer(200)
    outage.wait(40)

    assert outage.received == sorted(events)
    (replay,) = outage.replays
    assert (replay.state, replay.matched, replay.queued, replay.requested_by) == ("done", 19, 19, None)
    assert outage.episode is None
    assert not QueueEntry.objects.exists()


def test_any_other_success_starts_the_replay(outage):
    missed = outage.emit(3)
    outage.work()
    outage.answer(200)

    later = outage.emit()
    outage.wait(2)

    assert outage.attempts == []
    assert outage.received == sorted(missed + later)
    assert [replay.queued for replay in outage.replays] == [3]


def test_no_replay_is_made_if_the_attempt_delivered_the_only_missed_event(outage):
    outage.emit()
    outage.work()
    outage.answer(200)

    outage.wait(3)

    assert (len(outage.received), outage.replays, outage.episode) == (1, [], None)


def test_a_manual_webhook_is_left_alone(outage):
    Webhook.objects.update(recovery="manual")
    outage.emit(2)
    outage.work()
    sent = len(outage.transport.requests)

    outage.wait(60)
    outage.answer(200)
    outage.emit()
    outage.wait(5)

    assert len(outage.transport.requests) == sent + 1
    assert (outage.episode, outage.replays) == (None, [])


@OVER_HOURS
def test_pending_deliveries_are_attempts_enough(outage):
    outage.emit()
    outage.work()

    for _ in range(4):
        outage.emit()
        QueueEntry.objects.update(due_at=outage.clock() + timedelta(hours=5))
        outage.wait(30)

    assert outage.attempts == []


def told(outage):
    return health_of(Webhook.objects.get(), outage.clock())


def test_the_health_of_the_webhook_tells_when_each_attempt_follows(outage):
    outage.emit()
    outage.work()
    promised = []
    for _ in range(4):
        promised.append(told(outage).next_recovery_at)
        outage.wait((promised[-1] - outage.clock()) / timedelta(minutes=1))

    assert [round((made - at).total_seconds()) for made, at in zip(outage.attempts, promised, strict=True)] == [0] * 4


def test_no_recovery_attempt_is_promised_while_events_wait_for_retries(outage):
    outage.emit()
    outage.work()
    outage.emit()
    QueueEntry.objects.update(due_at=outage.clock() + timedelta(hours=5), attempt=1)

    assert (told(outage).next_recovery_at, told(outage).recovery_held_by) == (None, "")


@pytest.mark.parametrize("stop", ["pause", "disable"])
def test_the_recovery_of_a_stopped_webhook_is_held_back(outage, stop):
    outage.emit(2)
    outage.work()
    getattr(lifecycle, stop)(outage.webhook, actor=PROJECT)

    assert (told(outage).next_recovery_at, told(outage).recovery_held_by) == (None, "webhook")


def test_a_recovery_is_held_back_while_a_person_pauses_its_replay(outage):
    outage.emit(3)
    outage.work()
    outage.answer(200)
    while not outage.replays:
        outage.clock.advance(60)
        outage.deliver()
        outage.run_jobs(replays=False)
    assert told(outage).recovery_held_by == ""

    Replay.objects.update(state="running")
    replays.pause(outage.replays[0], actor=PROJECT)

    assert (told(outage).next_recovery_at, told(outage).recovery_held_by) == (None, "replay")


@OVER_HOURS
@pytest.mark.parametrize("stop", ["pause", "disable"])
def test_a_stopped_webhook_gets_no_attempts_and_continues_later(outage, stop):
    events = outage.emit(2)
    outage.work()
    getattr(lifecycle, stop)(outage.webhook, actor=PROJECT)
    outage.answer(200)

    outage.wait(120)
    assert outage.attempts == []
    Webhook.objects.update(paused_at=None, status="active")
    outage.wait(5)

    assert outage.received == sorted(events)


def test_events_that_a_disabled_webhook_could_not_get_are_sent_too(outage):
    given_up = outage.emit()
    outage.work()
    lifecycle.disable(outage.webhook, actor=PROJECT)
    never_queued = outage.emit(2)
    Webhook.objects.update(status="active")
    outage.answer(200)

    outage.wait(5)

    assert outage.received == sorted(given_up + never_queued)


def test_it_ends_when_the_events_are_too_old(outage, settings):
    settings.WEBHOOKS_RECOVERY_DAYS = 0.1
    outage.emit()
    outage.work()

    outage.wait(6 * 60)

    assert outage.episode is None
    assert minutes_between(outage.attempts) == [5, 15, 30, 60]


def test_events_are_not_too_old_when_a_long_policy_gives_them_up(outage, settings):
    settings.WEBHOOKS_RECOVERY_DAYS = 1
    Webhook.objects.update(retry_policy="extended")
    outage.webhook.refresh_from_db()
    events = outage.emit(2)
    began_at = outage.clock()
    while (due := QueueEntry.objects.order_by("-due_at").values_list("due_at", flat=True).first()) is not None:
        outage.clock.now = max(outage.clock(), due)
        Engine(transport=outage.transport, clock=outage.clock).run_until_idle(await_retries=False)
    outage.run_jobs()
    assert outage.clock() - began_at > timedelta(days=2)

    outage.wait(10)
    outage.answer(200)
    outage.wait(60)

    assert outage.received == sorted(events)
    assert outage.episode is None


@OVER_HOURS
def test_a_receiver_that_fails_again_gets_each_event_in_one_more_series_only(outage, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 8
    outage.emit(30)
    outage.work()
    outage.answer(200, 200, *[500] * 10)
    outage.wait(60)
    replay = outage.replays[0]
    assert (replay.state, replay.state_reason.code) == ("paused", "receiver_fails_again")

    outage.answer(200)
    outage.wait(120)

    assert outage.episode is None
    for event in Event.objects.all():
        series = event.deliveries.filter(webhook=outage.webhook, replay__isnull=False)
        attempts = event.deliveries.filter(webhook=outage.webhook, purpose="recovery", state="succeeded")
        assert len(series) + len(attempts) == 1
    assert {replay.state for replay in outage.replays} == {"done"}


@OVER_HOURS
def test_events_missed_while_failing_again_are_recovered_in_the_same_episode(outage, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 4
    outage.emit(6)
    outage.work()
    outage.answer(200, 500)
    outage.wait(30)

    late = outage.emit(3)
    outage.work()
    outage.answer(200)
    outage.wait(180)

    assert set(late) <= set(outage.received)
    assert outage.episode is None


def test_a_quarter_of_the_concurrency_is_pending_at_first(outage, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 20
    outage.emit(100)
    outage.work()
    outage.answer(200)
    outage.emit()
    outage.deliver()

    numbers = []
    for seconds in (0, 5, 5, 61):
        outage.clock.advance(seconds)
        outage.run_jobs()
        numbers.append(QueueEntry.objects.count())

    assert numbers[-2:] == [5, 10]


def test_the_owner_can_cancel_the_replay(outage):
    outage.emit(3)
    outage.work()
    outage.answer(200)
    outage.emit()
    outage.deliver()
    outage.run_jobs(replays=False)
    (replay,) = outage.replays
    replays.cancel(replay, actor=ProjectCode(account=outage.webhook.owner))

    outage.wait(30)

    assert outage.episode is None
    assert [replay.state for replay in outage.replays] == ["cancelled"]


def test_the_audit_names_the_service(outage):
    outage.emit(2)
    outage.work()
    outage.answer(200)

    outage.wait(5)

    actions = ("delivery.redelivered", "replay.planned", "replay.started")
    assert [set(AuditEntry.objects.filter(action=action).values_list("via", "actor_name")) for action in actions] == [
        {("system", "")}
    ] * 3


def test_an_operational_event_tells_how_many_were_recovered(outage):
    make_webhook(None, "webhook.recovery_ended")
    outage.emit(5)
    outage.work()
    outage.answer(200)

    outage.wait(10)

    event = Event.objects.get(type="webhook.recovery_ended")
    data = json.loads(event.body)["data"]
    assert (data["webhook_id"], data["recovered"], data["given_up"]) == (outage.webhook.pk, 5, 0)


def test_choosing_automatic_recovery_during_a_failure_begins_it(outage):
    Webhook.objects.update(recovery="manual")
    events = outage.emit(2)
    outage.work()
    assert outage.episode is None

    update_webhook(outage.webhook, actor=PROJECT, recovery="automatic")
    outage.answer(200)
    outage.wait(5)

    assert outage.received == sorted(events)


def test_choosing_manual_recovery_ends_it(outage):
    outage.emit(2)
    outage.work()

    update_webhook(outage.webhook, actor=PROJECT, recovery="manual")
    outage.wait(5)

    assert (outage.episode, outage.attempts) == (None, [])


def test_a_running_replay_of_a_person_comes_first(outage):
    outage.emit(2)
    outage.work()
    planned = replays.plan(outage.webhook, actor=PROJECT)
    Replay.objects.filter(pk=planned.pk).update(state="running", next_slot_at=outage.clock() + timedelta(minutes=20))
    outage.answer(200)
    outage.emit()

    outage.wait(10)
    assert [replay.recovers_since for replay in outage.replays] == [None]
    outage.wait(20)

    assert len(outage.received) == 3
    assert outage.episode is None


def test_one_run_makes_steps_for_a_limited_time_and_the_next_one_goes_on(outage, alice, monkeypatch):
    monkeypatch.setattr("webhooks_app.maintenance.recovery.BUDGET_SECONDS", -1)
    for _ in range(2):
        make_webhook(alice, recovery="automatic", retry_notices=False)
    outage.emit()
    outage.deliver()
    with following(outage.clock):
        fold("default", also=lambda folded: take_in("default", folded))
    outage.clock.advance(60)

    left = []
    for _ in range(3):
        assert recover("default", outage.clock(), {}) == LEAST_PAUSE_SECONDS
        left.append(Episode.objects.due(outage.clock()).count())

    assert left == [2, 1, 0]
    assert Delivery.objects.filter(purpose="recovery").count() == 3


def test_a_recovery_attempt_that_was_lost_with_its_worker_is_soon_repeated(outage):
    events = outage.emit(2)
    outage.work()
    outage.wait(3 * 60)
    lost = Delivery.objects.filter(purpose="recovery").order_by("-pk").first()
    Delivery.objects.filter(pk=lost.pk).update(last_result="worker_lost")
    failed: dict[str, object] = {"failed_at": outage.clock(), "next_step_at": outage.clock()}
    Episode.objects.update(last_attempt=lost.pk, **failed)
    assert outage.episode.attempts >= len(DELAYS)
    outage.answer(200)

    outage.wait(5)

    assert outage.received == sorted(events)
