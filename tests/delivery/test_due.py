"""Due times follow the database's clock, regardless of the local clock."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from webhooks_app import send_test_event
from webhooks_app.database.clock import DatabaseClock
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Delivery
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification

from ..support.rows import EVENT_TYPE, deliveries, emit_one, end_deliveries, unverified

pytestmark = pytest.mark.django_db


class AnHourAhead(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(hours=1)


def redeliver(webhook):
    emit_one(webhook.owner)
    end_deliveries(state="given_up")
    return deliveries()[0].redeliver()


QUEUED = {
    "an event": lambda webhook: emit_one(webhook.owner).deliveries.get(),
    "a handshake": lambda webhook: start_verification(unverified(webhook), actor=PROJECT),
    "a test": lambda webhook: send_test_event(webhook, EVENT_TYPE),
    "a redelivery": redeliver,
}


@pytest.mark.parametrize("queue", QUEUED.values(), ids=QUEUED.keys())
def test_deliveries_of_a_process_with_a_fast_clock_are_due_at_once(webhook, receiver, monkeypatch, queue):
    monkeypatch.setattr("django.utils.timezone.datetime", AnHourAhead)
    queued = queue(webhook)
    due_at = queued.due_at
    monkeypatch.undo()

    Engine(transport=receiver(200), clock=DatabaseClock("default")).run_until_idle(await_retries=False)

    assert due_at < datetime.now(due_at.tzinfo) + timedelta(minutes=1)
    assert Delivery.objects.get(pk=queued.pk).state == "succeeded"
