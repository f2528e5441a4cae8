"""When the engine looks for due deliveries, and how long it may sleep."""

from __future__ import annotations

import heapq
import threading
from datetime import datetime

from .clock import Clock

LINGER_SECONDS = 0.25
"""How long an engine that finds nothing more keeps looking, so that new work need not wake it."""

LOOK_EVERY_SECONDS = 0.005
LOOK_SHARE = 0.1
"""How much of its time a lingering engine spends on looking, at most: where a look is slow, it looks less often."""

FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0

OTHERS_RECORD_WITHIN_SECONDS = MAX_BACKOFF_SECONDS + 5.0
"""Within what time, once the database is back, every other worker has noticed and recorded what it held."""


class Agenda:
    """Looks are due at once when woken, when something expected is due, every few ms while lingering, and each sweep.

    While the database is away nothing is due but to ask again, at growing intervals.
    """

    def __init__(self, clock: Clock, *, sweep_seconds: float) -> None:
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._moments: list[datetime] = []
        self._woken = threading.Event()
        self._next_look_at = 0.0
        self._is_look_asked_for = False
        self._look_again_at = 0.0
        self._linger_until = 0.0
        self._backoff_seconds = 0.0
        self._ask_again_at = 0.0
        self._lost_from = 0.0

    @property
    def expects_work(self) -> bool:
        return bool(self._moments)

    @property
    def is_backing_off(self) -> bool:
        return bool(self._backoff_seconds)

    @property
    def may_ask_database(self) -> bool:
        return self._clock.monotonic() >= self._ask_again_at

    @property
    def may_take_lost(self) -> bool:
        """Whether a claim whose lease has ended is lost: not while its worker may be waiting for the database too."""
        return not self.is_backing_off and self._clock.monotonic() >= self._lost_from

    def wake(self) -> None:
        """Make a look due now. Thread-safe."""
        self._woken.set()

    def look_at(self, at: datetime) -> None:
        """Make a look due then, when a retry or a slot of a rate limit is."""
        heapq.heappush(self._moments, at)

    def look_soon(self) -> None:
        """Make a look due now, because something may be due, or there may be room; during a look, one more."""
        self._is_look_asked_for = True

    def look_soon_and_after(self, seconds: float) -> None:
        """Make a look due now and, also if that finds nothing, another one after this time."""
        self._look_again_at = self._clock.monotonic() + seconds
        self.look_soon()

    def is_look_due(self) -> bool:
        if self._woken.is_set() or self._take_due_moments():
            self._woken.clear()
            self._next_look_at = 0.0
            self._linger_until = self._clock.monotonic() + LINGER_SECONDS
        if self._is_look_asked_for:
            self._is_look_asked_for = False
            self._next_look_at = 0.0
        return self._clock.monotonic() >= self._next_look_at

    def looked(self, *, found: bool, took_seconds: float) -> None:
        """Plan the look after one that found something, or nothing, and took so long."""
        now = self._clock.monotonic()
        if found:
            self._linger_until = now + LINGER_SECONDS
        soon = max(LOOK_EVERY_SECONDS, took_seconds / LOOK_SHARE)
        self._next_look_at = now + (soon if now < self._linger_until else self._sweep_seconds)
        if now < self._look_again_at:
            self._next_look_at = min(self._next_look_at, self._look_again_at)

    def database_failed(self) -> None:
        """Ask the database again after a while, and then look at once: a wake-up may have been lost."""
        self._backoff_seconds = min(max(self._backoff_seconds * 2, FIRST_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)
        self._ask_again_at = self._clock.monotonic() + self._backoff_seconds
        self._next_look_at = 0.0

    def database_answered(self) -> None:
        self._backoff_seconds = self._ask_again_at = 0.0
        self._lost_from = self._clock.monotonic() + OTHERS_RECORD_WITHIN_SECONDS

    def seconds_to_look(self) -> float:
        """Return after how many seconds a look will be due if nothing happens."""
        if self._is_look_asked_for:
            return 0.0
        seconds = self._next_look_at - self._clock.monotonic()
        if self._moments:
            seconds = min(seconds, (self._moments[0] - self._clock()).total_seconds())
        return max(0.0, seconds)

    def seconds_to_ask(self) -> float:
        return max(0.0, self._ask_again_at - self._clock.monotonic())

    def _take_due_moments(self) -> bool:
        if not self._moments or self._moments[0] > self._clock():
            return False
        now = self._clock()
        while self._moments and self._moments[0] <= now:
            heapq.heappop(self._moments)
        return True
