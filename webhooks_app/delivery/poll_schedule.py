"""When the engine looks for due deliveries, and how long it may sleep."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable
from datetime import datetime

from ..database.clock import Clock

LINGER_SECONDS = 0.25
"""How long an engine that finds nothing more keeps looking, so that new work need not wake it."""

LOOK_EVERY_SECONDS = 0.005
LOOK_EVERY_SECONDS_LISTENING = 0.05
"""The same where the database notifies of each commit: then a look is only for what a notification could not bring."""

LOOK_SHARE = 0.1
"""How much of its time a lingering engine spends on looking, at most: where a look is slow, it looks less often."""

UNNOTIFIED_SECONDS = 0.1
"""For how long a process that commits very often sends no more notifications, once it has announced that."""


class PollSchedule:
    """Looks are due at once when woken, when something expected is due, every few ms while lingering, and each sweep.

    A notification that names webhooks makes no look due, but a claim from these. Thread-safe are ``wake``, ``expect``
    and ``look_soon``.
    """

    def __init__(self, clock: Clock, *, sweep_seconds: float) -> None:
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._expected: deque[datetime] = deque()
        self._moments: list[datetime] = []
        self._named: dict[str, None] = {}
        self._woken = threading.Event()
        self._next_look_at = 0.0
        self._is_look_asked_for = False
        self._linger_until = 0.0
        self._look_often_until = 0.0
        self.is_listening = False
        """Whether the database notifies of commits."""

    @property
    def expects_work(self) -> bool:
        return bool(self._moments or self._expected)

    def wake(self) -> None:
        """Make a look due now."""
        self._woken.set()

    def expect(self, moments: Iterable[datetime]) -> None:
        """Make looks due at these times, when retries are."""
        self._expected.extend(moments)

    def look_at(self, at: datetime) -> None:
        """Make a look due then, when a slot of a rate limit is."""
        heapq.heappush(self._moments, at)

    def look_soon(self) -> None:
        """Make a look due now, because something may be due, or there may be room; during a look, one more."""
        self._is_look_asked_for = True

    def notified(self, webhook_ids: Iterable[str], *, more_follow: bool) -> None:
        """Make a claim from these webhooks due, or a look if none is named.

        With ``more_follow`` the process that sends it commits so often that it will not notify for a while.
        """
        if more_follow:
            self._look_often_until = self._clock.monotonic() + UNNOTIFIED_SECONDS + LOOK_EVERY_SECONDS
            self._next_look_at = min(self._next_look_at, self._clock.monotonic() + LOOK_EVERY_SECONDS)
        named = dict.fromkeys(webhook_ids)
        self._named.update(named)
        self._is_look_asked_for = self._is_look_asked_for or not named

    def take_named(self) -> list[str]:
        """Return the webhooks that were named since the last look."""
        named, self._named = list(self._named), {}
        return named

    def is_look_due(self) -> bool:
        """Return True if there is something to claim, of the named webhooks or, if there are none, of any."""
        if self._woken.is_set() or self._take_due_moments():
            self._woken.clear()
            self._next_look_at = 0.0
            self._linger_until = self._clock.monotonic() + LINGER_SECONDS
        if self._is_look_asked_for:
            self._is_look_asked_for = False
            self._next_look_at = 0.0
        if self._clock.monotonic() >= self._next_look_at:
            self._named.clear()  # a look finds them too
            return True
        return bool(self._named)

    def looked(self, *, found: bool, took_seconds: float) -> None:
        """Plan the look after one that found something, or nothing, and took so long."""
        now = self._clock.monotonic()
        if found:
            self._linger_until = now + LINGER_SECONDS
        # Only a look that begins after the unnotified period finds everything that was committed in it.
        is_unnotified = now - took_seconds < self._look_often_until
        often = is_unnotified or not self.is_listening
        soon = now + max(LOOK_EVERY_SECONDS if often else LOOK_EVERY_SECONDS_LISTENING, took_seconds / LOOK_SHARE)
        if is_unnotified:
            self._next_look_at = min(soon, max(now + LOOK_EVERY_SECONDS, self._look_often_until))
        else:
            self._next_look_at = soon if now < self._linger_until else now + self._sweep_seconds

    def claimed_named(self) -> None:
        """Plan a look shortly after a claim from named webhooks, for what it left behind."""
        self._next_look_at = min(self._next_look_at, self._clock.monotonic() + LOOK_EVERY_SECONDS_LISTENING)

    def seconds_to_look(self) -> float:
        """Return after how many seconds a look will be due if nothing happens."""
        if self._is_look_asked_for or self._named or self._woken.is_set():
            return 0.0
        self._take_expected()
        seconds = self._next_look_at - self._clock.monotonic()
        if self._moments:
            seconds = min(seconds, (self._moments[0] - self._clock()).total_seconds())
        return max(0.0, seconds)

    def _take_due_moments(self) -> bool:
        self._take_expected()
        now = self._clock()
        is_due = bool(self._moments) and self._moments[0] <= now
        while self._moments and self._moments[0] <= now:
            heapq.heappop(self._moments)
        return is_due

    def _take_expected(self) -> None:
        while self._expected:
            heapq.heappush(self._moments, self._expected.popleft())
