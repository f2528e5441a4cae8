"""Events with a past at a webhook, and replays of them that are carried by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import Delivery, Event, Replay, Webhook
from webhooks_app.replays.planning import plan_replay
from webhooks_app.replays.runner import advance

from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook

AGO = timedelta(hours=1)


@pytest.fixture
def alice(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("alice")


@pytest.fixture
def webhook(alice: Any) -> Webhook:
    """A webhook that is older than what happens in the tests."""
    webhook = make_webhook(alice, EVENT_TYPE, "file.uploaded")
    webhook.created_at = timezone.now() - timedelta(days=60)
    webhook.save(update_fields=["created_at"])
    return webhook


def emit_with(webhook: Webhook, outcome: str) -> Event:
    """Emit an event whose delivery to the webhook came to this; ``missed`` for none."""
    event = emit_one(webhook.owner)
    delivery = Delivery.objects.filter(event=event, webhook=webhook)
    if outcome == "missed":
        delivery.delete()
    elif outcome != "pending":
        end_deliveries(delivery, state=outcome, finished_at=timezone.now())
    return event


def emit_all(webhook: Webhook, outcome: str, number: int) -> list[str]:
    """Emit so many, and return them in the order of their identifiers, which is random within a millisecond."""
    return sorted(emit_with(webhook, outcome).pk for _ in range(number))


def plan(webhook: Webhook, **fields: Any) -> Replay:
    return plan_replay(webhook, **{"since": timezone.now() - AGO, **fields})


def started(webhook: Webhook, **fields: Any) -> Replay:
    replay = plan(webhook, **fields)
    replay.start()
    return replay


def step(replay: Replay, now: datetime | None = None) -> float | None:
    """Do one step, now or at another time, and take the replay as it is then."""
    pause = advance("default", replay.pk, now or timezone.now())
    replay.refresh_from_db()
    return pause


def finish_pending() -> None:
    """Have everything that is pending delivered; when it was due is kept, to be looked at."""
    end_deliveries(Delivery.objects.pending(), state="succeeded")


def carry_to_the_end(replay: Replay) -> None:
    """Carry a replay on as workers do, its deliveries sent and time passing between the steps."""
    now = timezone.now()
    for _ in range(100):
        if step(replay, now) is None:
            return
        finish_pending()
        now += timedelta(seconds=1)
    pytest.fail(f"{replay} does not end.")


def queued_by(replay: Replay) -> list[str]:
    """Return the events that a replay queued, in the order in which they are due."""
    return list(replay.deliveries.order_by("created_at", "pk").values_list("event_id", flat=True))
