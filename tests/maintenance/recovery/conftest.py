"""A webhook with automatic recovery, its receiver, and workers whose time passes by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from webhooks_app.database.clock import following
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.health import take_in
from webhooks_app.maintenance.jobs import advance_replays
from webhooks_app.maintenance.recovery import recover
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import Delivery, Episode, QueueEntry, Replay, Tally, Webhook
from webhooks_app.models.audit import SYSTEM, acting

from ...delivery.conftest import ImpatientTransport, ManualClock, Receiver
from ...support.rows import emit_one, make_webhook

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Outage:
    """A webhook whose receiver answers as told, with a worker that delivers and runs its jobs."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.clock = ManualClock()
        self.receiver = Receiver(500)
        self.transport = ImpatientTransport(self.clock, self.receiver)

    def answer(self, *statuses: int) -> None:
        self.receiver.answers = list(statuses)

    def emit(self, number: int = 1) -> list[str]:
        return [emit_one(self.webhook.owner).pk for _ in range(number)]

    def deliver(self) -> None:
        """Make all attempts, retries included."""
        if QueueEntry.objects.filter(due_at__lt=self.clock() + MINUTE).exists():
            Engine(transport=self.transport, clock=self.clock).run_until_idle()

    def work(self) -> None:
        """Deliver and run the jobs until nothing is left to do at this time."""
        while True:
            self.deliver()
            self.run_jobs()
            if not (self.is_busy or Tally.objects.exists()):
                return
            self.clock.advance(1)

    @property
    def is_busy(self) -> bool:
        """Whether something is due, or a replay can go on."""
        running = Replay.objects.under_way().exclude(next_slot_at__gt=self.clock() + MINUTE)
        is_paused = Webhook.objects.filter(paused_at__isnull=False).exists()
        queued = QueueEntry.objects.filter(due_at__lt=self.clock() + MINUTE)
        return not is_paused and (running.exists() or queued.exists())

    def run_jobs(self, *, replays: bool = True) -> None:
        with acting(SYSTEM), following(self.clock):
            fold("default", also=lambda folded: take_in("default", folded))
            recover("default", self.clock(), {})
            if replays:
                advance_replays("default", self.clock(), {})

    def wait(self, minutes: float) -> None:
        """Let time pass, with a worker that looks whenever something is due."""
        ends_at = self.clock() + minutes * MINUTE
        while self.clock() < ends_at:
            planned = [self.clock() + MINUTE] if self.replays else []
            if self.episode is not None:
                planned.append(max(self.episode.next_step_at, self.clock() + SECOND))
            self.clock.now = min([*planned, ends_at])
            self.work()

    @property
    def attempts(self) -> list[datetime]:
        """The times of the recovery attempts."""
        rows = Delivery.objects.filter(webhook=self.webhook, purpose="recovery").order_by("created_at")
        return list(rows.values_list("created_at", flat=True))

    @property
    def received(self) -> list[str]:
        """The events that the webhook has got, once each."""
        return sorted({row.event_id for row in self.webhook.deliveries.filter(state="succeeded")})

    @property
    def replays(self) -> list[Replay]:
        return list(Replay.objects.filter(webhook=self.webhook).order_by("pk"))

    @property
    def episode(self) -> Episode | None:
        return Episode.objects.filter(pk=self.webhook.pk).first()


@pytest.fixture
def outage(alice: Any) -> Outage:
    return Outage(make_webhook(alice, recovery="automatic", retry_notices=False))
