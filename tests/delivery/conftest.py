"""An engine with the in-memory transport and a simulated clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhooks_app.conf import transport_options
from webhooks_app.delivery.claim import Finished
from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.recording import record
from webhooks_app.delivery.sql import sql_for
from webhooks_app.models import Webhook
from webhooks_app.transport import Exchange, Request, Response
from webhooks_app.transport.memory import Answer, MemoryTransport

from ..support.queues import LookingQueue
from ..support.rows import make_webhook
from ..support.slots import open_slots


class ManualClock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC) + timedelta(minutes=1)

    def __call__(self) -> datetime:
        return self.now

    def latest(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class ImpatientTransport(MemoryTransport):
    """An in-memory transport that advances the clock instead of waiting."""

    def __init__(self, clock: ManualClock, answer: Any) -> None:
        super().__init__(transport_options(), answer=answer)
        self.manual_clock = clock

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        if not self.in_flight:
            self.manual_clock.advance(max(timeout_seconds, 0.001))
            return []
        return super().wait(timeout_seconds)

    def sent(self, event_type: str | None = None) -> list[dict[str, Any]]:
        """Return the sent envelopes, optionally of one type only."""
        envelopes = [json.loads(request.body) for request in self.requests]
        return [envelope for envelope in envelopes if event_type in (None, envelope["type"])]

    def close(self) -> None:
        """Stay open for the next run."""


def echo_challenge(request: Request) -> Response:
    challenge = json.loads(request.body)["data"]["challenge"]
    return Response(status=200, body=json.dumps({"challenge": challenge}).encode())


class Receiver:
    """A receiver that answers events with these statuses in turn, and then repeats the last."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers) or [200]

    def __call__(self, request: Request) -> Answer | None:
        event_type = json.loads(request.body)["type"]
        if event_type == "webhook.verification":
            return echo_challenge(request)
        if event_type == "webhook.retry":
            return 200
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def recorded(queue: LookingQueue, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """Record results as the worker of this queue does. Return those with a valid claim."""
    valid = record(sql_for("default"), finished, now)
    queue.forget([item.claim for item in finished])
    return valid


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def receiver(clock: ManualClock) -> Callable[..., ImpatientTransport]:
    """Create a transport with a receiver that gives these answers."""
    return lambda *answers: ImpatientTransport(clock, Receiver(*answers))


@pytest.fixture
def deliver(clock: ManualClock) -> Callable[[MemoryTransport], None]:
    """Deliver until nothing is left to do, retries included."""
    return lambda transport: Engine(transport=transport, clock=clock).run_until_idle()


@pytest.fixture
def webhook(alice: Any) -> Webhook:
    return make_webhook(alice)


def _new_queue(clock: ManualClock) -> LookingQueue:
    return LookingQueue(using="default", clock=clock, lease=timedelta(seconds=45), slots=open_slots())


@pytest.fixture
def queue(clock: ManualClock) -> LookingQueue:
    return _new_queue(clock)


@pytest.fixture
def other_queue(clock: ManualClock) -> LookingQueue:
    """The queue of another worker."""
    return _new_queue(clock)
