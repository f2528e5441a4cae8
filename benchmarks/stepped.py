"""A clock that moves with each request, and its transport, so that every run of an engine takes the same steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from django.db import DEFAULT_DB_ALIAS

from webhooks_app.database.clock import DatabaseClock
from webhooks_app.testing import ManualClock
from webhooks_app.transport import BaseTransport, Exchange, Request, Response

CLOCK_TICK_SECONDS = 0.000001
"""The resolution of the clock. Without a tick, a shorter wait would not move it."""

TURN_SECONDS = 0.002
"""The simulated time of recording results and claiming, while events arrive."""

AHEAD_SECONDS = 60
"""So far the clock of steady events is ahead of the database's, which dates them: they are always due."""

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
CAPACITY = 2000
"""So many requests in flight, whatever the default is, so that counts of different versions are comparable."""


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


class SteadyTransport(SteppedTransport):
    """A stepped transport that also calls ``emit`` so many times per second of its clock.

    It calls its attribute ``end`` when every event has been emitted and a turn has found nothing to send.
    """

    def __init__(self, clock: SteppedClock, *, emit: Callable[[int], object], events: int, per_second: float) -> None:
        super().__init__(clock)
        self._emit = emit
        self.end: Callable[[], object]
        clock.advance(AHEAD_SECONDS)
        self._due_at = deque(clock.monotonic() + number / per_second for number in range(events))

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        """Move the clock by a turn, or without a request up to the next event; emit what is due by then."""
        finished, self._finished = self._finished, []
        if finished:
            self._clock.advance(TURN_SECONDS)
        elif self._due_at:
            until_next = max(0.0, self._due_at[0] - self._clock.monotonic())
            self._clock.advance(min(timeout_seconds, until_next) + CLOCK_TICK_SECONDS)
        else:
            self._clock.advance(timeout_seconds + CLOCK_TICK_SECONDS)
            self.end()
        while self._due_at and self._due_at[0] <= self._clock.monotonic():
            self._due_at.popleft()
            self._emit(len(self._due_at))
        return finished
