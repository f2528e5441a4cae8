"""Events missed by a webhook, according to its failing periods."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from tests.support.retries import MINUTE, ONCE
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import ApiKey, Delivery, QueueEntry, Rollup, Webhook, WebhookHealth
from webhooks_app.models.health import FailingPeriod
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import disable, enable
from webhooks_app.operations.registration import update_webhook
from webhooks_app.operations.replays import recover_missed
from webhooks_app.transport import Response
from webhooks_app.transport.memory import MemoryTransport

from ..support.rows import emit_one, end_deliveries, make_older, make_webhook
from .conftest import carry_to_the_end

pytestmark = pytest.mark.django_db

BROKEN, FIXED = "http://127.0.0.1:9000/broken", "http://127.0.0.1:9000/fixed"


def answer(request):
    if request.url == BROKEN:
        return 500
    challenge = json.loads(request.body)["data"].get("challenge")
    return Response(status=200, body=json.dumps({"challenge": challenge}).encode())


def deliver(*, await_retries=True):
    Engine(transport=MemoryTransport(transport_options(), answer=answer)).run_until_idle(await_retries=await_retries)


@pytest.fixture
def recovered(alice, settings):
    """A webhook with deliveries pending at the change of its URL. They succeeded at the new URL."""
    settings.WEBHOOKS_RETRY_POLICIES = [ONCE]
    settings.WEBHOOKS_RETRY_NOTICES = False
    webhook = make_webhook(alice, url=BROKEN)
    given_up = [emit_one(alice).pk for _ in range(3)]
    deliver()
    settings.WEBHOOKS_RETRY_POLICIES = [MINUTE]
    pending = [emit_one(alice).pk for _ in range(2)]
    deliver(await_retries=False)
    update_webhook(webhook, url=FIXED, actor=PROJECT)
    deliver(await_retries=False)  # the verification of the URL
    QueueEntry.objects.update(due_at=timezone.now())
    deliver()
    assert set(Delivery.objects.filter(state="given_up").values_list("event", flat=True)) == set(given_up)
    assert Delivery.objects.filter(event__in=pending, state="succeeded").count() == 2
    return webhook


def test_events_given_up_before_the_fix_are_found_if_pending_ones_succeed_after_it(recovered):
    given_up = set(Delivery.objects.filter(state="given_up").values_list("event", flat=True))

    replay = recover_missed(recovered, actor=PROJECT)
    replay.start()
    carry_to_the_end(replay)

    assert (replay.matched, replay.queued) == (3, 3)
    assert set(replay.deliveries.values_list("event", flat=True)) == given_up


def test_the_replay_has_the_failing_period(recovered):
    (period,) = recover_missed(recovered, actor=PROJECT).failing

    found = FailingPeriod.from_json(period)
    assert found.given_up == 3
    assert found.ended_at == WebhookHealth.objects.get().cleared_at


def test_the_command_shows_the_failing_period(recovered):
    notes = StringIO()

    call_command("replay_webhooks", recovered.pk, dry_run=True, stderr=notes, stdout=StringIO())

    (period,) = WebhookHealth.objects.get().past_failures
    assert f"failing from {period['since']} to {period['until']}, 3 deliveries given up" in notes.getvalue()


def test_the_api_shows_the_failing_period(recovered, client):
    _, key = ApiKey.objects.make(owner=recovered.owner)
    headers = {"authorization": f"Bearer {key}"}

    planned = client.post("/v1/replays", {"webhook_id": recovered.pk}, "application/json", headers=headers).json()
    read = client.get(f"/v1/replays/{planned['id']}", headers=headers).json()

    (period,) = WebhookHealth.objects.get().past_failures
    assert (planned["matched"], read["matched"]) == (3, 3)
    assert planned["failing"] == read["failing"] == [{name: period[name] for name in ("since", "until", "given_up")}]
    assert period["given_up"] == 3


def test_the_console_shows_the_failing_period(recovered, admin_client):
    page = admin_client.get("/admin/webhooks_app/replay/add/", {"webhook": recovered.pk})
    replay = recover_missed(recovered, actor=PROJECT)
    progress = admin_client.get(f"/admin/webhooks_app/replay/{replay.pk}/change/")

    for shown in (page, progress):
        assert "Failed from" in shown.text
        assert "3 given up" in shown.text


def test_an_event_queued_long_before_it_was_given_up_is_found(alice):
    webhook = make_webhook(alice)
    webhook.created_at = timezone.now() - timedelta(days=60)
    webhook.save(update_fields=["created_at"])
    emitted_at = timezone.now() - timedelta(days=3)
    health = WebhookHealth(webhook=webhook)
    health.note_given_up(timezone.now(), 1, emitted_at)
    health.save()

    assert recover_missed(webhook, actor=PROJECT).since < emitted_at


@pytest.mark.parametrize("has_order", [False, True], ids=["retry", "parked"])
def test_an_event_cancelled_long_after_it_was_queued_is_found(alice, has_order):
    webhook = make_webhook(alice, url=FIXED, order="webhook" if has_order else "none")
    Webhook.objects.filter(pk=webhook.pk).update(created_at=timezone.now() - timedelta(days=60))
    cancelled = make_older(emit_one(alice), timedelta(hours=6))
    QueueEntry.objects.update(due_at=None if has_order else timezone.now() + timedelta(hours=1))
    succeeded = emit_one(alice)
    end_deliveries(Delivery.objects.filter(event=succeeded), state="succeeded", finished_at=timezone.now())

    disable(webhook, actor=PROJECT)
    webhook.refresh_from_db()
    enable(webhook, actor=PROJECT)
    deliver()

    webhook.refresh_from_db()
    replay = recover_missed(webhook, actor=PROJECT)
    assert Delivery.objects.get(event=cancelled).state_reason == "webhook_disabled"
    assert replay.since < cancelled.created_at
    assert replay.matched == 1
    assert not Rollup.objects.exists()


def test_a_cancelled_event_is_found_although_a_request_in_flight_succeeds_later(alice):
    health = WebhookHealth(webhook=make_webhook(alice))
    emitted_at = timezone.now() - timedelta(hours=6)

    health.note_cancelled(emitted_at)
    health.end_period(timezone.now())

    (period,) = health.failures()
    assert (period.missed_from, period.given_up) == (emitted_at, 0)
    assert health.missed_from is None


def test_two_failing_periods_of_a_week_are_both_replayed(alice):
    webhook = make_webhook(alice)
    webhook.created_at = timezone.now() - timedelta(days=60)
    webhook.save(update_fields=["created_at"])
    health = WebhookHealth(webhook=webhook, last_success_at=timezone.now())
    for days in (4, 2):
        began_at = timezone.now() - timedelta(days=days)
        health.note_given_up(began_at, days, began_at)
        health.end_period(began_at + timedelta(hours=1))
    health.save()

    replay = recover_missed(webhook, actor=PROJECT)

    assert replay.since < timezone.now() - timedelta(days=4)
    assert [period["given_up"] for period in replay.failing] == [4, 2]


def test_many_periods_are_merged():
    health = WebhookHealth()
    now = timezone.now()
    for hours in range(30):
        health.note_given_up(now + timedelta(hours=hours), 1, None)
        health.end_period(now + timedelta(hours=hours, minutes=1))

    periods = health.failures()
    assert (len(periods), sum(period.given_up for period in periods)) == (10, 30)
    assert periods[0].began_at == now.replace(tzinfo=periods[0].began_at.tzinfo)
