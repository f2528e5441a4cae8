"""Replays whose workers are killed during a step."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from webhooks_app.models import Delivery, DeliveryAttempt, Event, Replay, Webhook
from webhooks_app.operations import replays
from webhooks_app.operations.actors import PROJECT

from ..support.rows import plan_replay
from ..support.waiting import wait_until
from .lab import asked

pytestmark = pytest.mark.timeout(300)

INSERTING = """
    SELECT 1 FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO "webhooks_app_delivery"%%'"""


@pytest.mark.places("postgresql-redis")
def test_a_worker_is_killed_mid_replay(lab, report):
    """Each event is queued once, and arrives once, except for requests in flight when the worker died."""
    webhook = lab.webhook("ok")
    lab.queue(webhook, 200)
    Delivery.objects.all().delete()
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    replay = plan_replay(webhook, since=timezone.now() - timedelta(hours=1), rate=5)
    replays.start(replay, actor=PROJECT)
    lab.start_worker()
    lab.wait_for_requests(8)

    with lab.database.writes_held(lab.url):
        wait_until(lambda: bool(lab.database.execute(INSERTING)), lab.explain)
        lab.kill_worker()
    wait_until(lambda: asked(lambda: Replay.objects.update(rate=1000) == 1), lab.explain)
    lab.start_worker()

    wait_until(lambda: asked(lambda: Replay.objects.get().state == Replay.State.DONE), lab.explain)
    report(lab.settle())
    assert Replay.objects.get().queued == replay.matched == 200
    queued = Delivery.objects.filter(kind="event").values_list("event_id", flat=True)
    assert sorted(queued) == sorted(Event.objects.exclude(type="webhook.retry").values_list("pk", flat=True))
    received = Counter(request["event_id"] for request in lab.requests())
    on_the_wire = set(DeliveryAttempt.objects.filter(result="worker_lost").values_list("delivery__event_id", flat=True))
    assert len(received) == 200
    assert {event_id for event_id, times in received.items() if times > 1} <= on_the_wire
