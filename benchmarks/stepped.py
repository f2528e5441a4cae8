"""A clock that moves with each request, and its transport, so that every run of an engine takes the same steps."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS

from webhooks_app.database.clock import DatabaseClock
from webhooks_app.testing import ManualClock
from webhooks_app.transport import BaseTransport, Exchange, Request, Response

CLOCK_TICK_SECONDS = 0.000001
"""The resolution of the clock. Without a tick, a shorter wait would not move it."""

REQUEST_SECONDS = 0.0001
"""The simulated time of a request: 10,000 per second."""

ANSWER = Response(
    status=200,
    headers=(
        ("Server", "nginx/1.22.1"),
        ("Date", "Sun, 22 Nov 2026 07:00:00 GMT"),
        ("Content-Type", "application/json"),
        ("Content-Length", "15"),
        ("Connection", "keep-alive"),
    ),
    body=b'{"status":"ok"}',
)
PEER = "203.0.113.10"
TIMINGS = {"dns": 0.0, "connect": 0.001, "first_byte": 0.004}
DURATION_SECONDS = 0.005
CAPACITY = 4000


class SteppedClock(ManualClock):
    """A clock that starts at the database's time. Its monotonic time moves with it."""

    def __init__(self) -> None:
        super().__init__(DatabaseClock(DEFAULT_DB_ALIAS)())
        self._began_at = self()

    def monotonic(self) -> float:
        return (self() - self._began_at).total_seconds()


class SteppedTransport(BaseTransport):
    """A transport that sends nothing. Each request has a response of nginx at once; waiting moves the clock."""

    name = "stepped"
    capacity = CAPACITY

    def __init__(self, clock: SteppedClock) -> None:
        self._clock = clock
        self._finished: list[Exchange] = []

    @property
    def in_flight(self) -> int:
        return len(self._finished)

    def start(self, request: Request) -> None:
        self._clock.advance(REQUEST_SECONDS)
        self._finished.append(Exchange(request, DURATION_SECONDS, ANSWER, None, PEER, TIMINGS))

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        finished, self._finished = self._finished, []
        if not finished:
            self._clock.advance(timeout_seconds + CLOCK_TICK_SECONDS)
        return finished

    def wake(self) -> None:
        """Do nothing, because no other thread waits."""

    def close(self) -> None:
        self._finished = []
