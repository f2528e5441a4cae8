"""Events with past deliveries, and replays advanced by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import Delivery, Event, Replay, Webhook
from webhooks_app.replays.runner import advance

from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook, plan_replay

AGO = timedelta(hours=1)


@pytest.fixture
def webhook(alice: Any) -> Webhook:
    """A webhook created before the events of the tests."""
    webhook = make_webhook(alice, EVENT_TYPE, "file.uploaded")
    webhook.created_at = timezone.now() - timedelta(days=60)
    webhook.save(update_fields=["created_at"])
    return webhook


def emit_with(webhook: Webhook, outcome: str) -> Event:
    """Emit an event, and give its delivery this outcome: ``missed`` for no delivery."""
    event = emit_one(webhook.owner)
    delivery = Delivery.objects.filter(event=event, webhook=webhook)
    if outcome == "missed":
        delivery.delete()
    elif outcome != "pending":
        end_deliveries(delivery, state=outcome, finished_at=timezone.now())
    return event


def emit_all(webhook: Webhook, outcome: str, number: int) -> list[str]:
    """Emit ``number`` events. Return them in the order of their identifiers, which is random within a millisecond."""
    return sorted(emit_with(webhook, outcome).pk for _ in range(number))


def plan(webhook: Webhook, **fields: Any) -> Replay:
    return plan_replay(webhook, **{"since": timezone.now() - AGO, **fields})


def started(webhook: Webhook, **fields: Any) -> Replay:
    replay = plan(webhook, **fields)
    replay.start()
    return replay


def step(replay: Replay, now: datetime | None = None) -> float | None:
    """Run one step, now or at another time, and reload the replay."""
    pause = advance("default", replay.pk, now or timezone.now())
    replay.refresh_from_db()
    return pause


def finish_pending() -> None:
    """Deliver everything pending. The due times are preserved for assertions."""
    end_deliveries(Delivery.objects.pending(), state="succeeded")


def carry_to_the_end(replay: Replay) -> None:
    """Run a replay as workers do, with deliveries sent and time passing between the steps."""
    now = timezone.now()
    for _ in range(100):
        if step(replay, now) is None:
            return
        finish_pending()
        now += timedelta(seconds=1)
    pytest.fail(f"{replay} does not end.")


def queued_by(replay: Replay) -> list[str]:
    """Return the events queued by a replay, in the order of their due times."""
    return list(replay.deliveries.order_by("created_at", "pk").values_list("event_id", flat=True))
