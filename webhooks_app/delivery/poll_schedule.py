"""The schedule of queries for due deliveries, and of the engine's sleep."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable
from datetime import datetime

from ..database.clock import Clock

LINGER_SECONDS = 0.25
"""How long an idle engine continues to query, so that new work need not wake it. If the database notifies of commits,
and the last claim left nothing, it queries only once after this time, as a precaution."""

LOOK_EVERY_SECONDS = 0.005
LOOK_EVERY_SECONDS_LISTENING = 0.05
"""The same if the database notifies of commits, and the last claim may have left something."""

LOOK_SHARE = 0.1
"""Maximum share of a lingering engine's time for queries. Slow queries are therefore less frequent."""

UNNOTIFIED_SECONDS = 0.1
"""How long a process suspends notifications after announcing it."""


class PollSchedule:
    """The times of queries for due deliveries ("looks").

    A look is due when the engine is woken, at expected due times, every few ms while lingering, and at each sweep. A
    notification with webhooks makes only a claim from these due. ``wake``, ``expect`` and ``look_soon`` are
    thread-safe.
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
        """Make looks due at the times of retries."""
        self._expected.extend(moments)

    def look_at(self, at: datetime) -> None:
        """Make a look due at the time of a rate limit's next slot."""
        heapq.heappush(self._moments, at)

    def look_soon(self) -> None:
        """Make a look due now, because of new work or free slots. During a look, it makes another one due."""
        self._is_look_asked_for = True

    def notified(self, webhook_ids: Iterable[str], *, more_follow: bool) -> None:
        """Make a claim from these webhooks due, or a look without any.

        With ``more_follow``, the sender commits so often that it suspends its notifications.
        """
        if more_follow:
            self._look_often_until = self._clock.monotonic() + UNNOTIFIED_SECONDS + LOOK_EVERY_SECONDS
            self._next_look_at = min(self._next_look_at, self._clock.monotonic() + LOOK_EVERY_SECONDS)
        named = dict.fromkeys(webhook_ids)
        self._named.update(named)
        self._is_look_asked_for = self._is_look_asked_for or not named

    def take_named(self) -> list[str]:
        """Return the webhooks named since the last look."""
        named, self._named = list(self._named), {}
        return named

    def is_look_due(self) -> bool:
        """Return True if a claim is due: from the named webhooks or, without any, from all."""
        if self._woken.is_set() or self._take_due_moments():
            self._woken.clear()
            self._next_look_at = 0.0
            self._linger_until = self._clock.monotonic() + LINGER_SECONDS
        if self._is_look_asked_for:
            self._is_look_asked_for = False
            self._next_look_at = 0.0
        if self._clock.monotonic() >= self._next_look_at:
            self._named.clear()  # included in the look
            return True
        return bool(self._named)

    def looked(self, *, found: bool, took_seconds: float, is_complete: bool = False) -> None:
        """Schedule the next look after one with this result and duration.

        ``is_complete`` is True if everything due was claimed.
        """
        now = self._clock.monotonic()
        if found:
            self._linger_until = now + LINGER_SECONDS
        # Only a look that starts after the suspension finds all commits of that time.
        is_unnotified = now - took_seconds < self._look_often_until
        often = is_unnotified or not self.is_listening
        soon = now + max(LOOK_EVERY_SECONDS if often else _next_look(is_complete), took_seconds / LOOK_SHARE)
        if is_unnotified:
            self._next_look_at = min(soon, max(now + LOOK_EVERY_SECONDS, self._look_often_until))
        else:
            self._next_look_at = soon if now < self._linger_until else now + self._sweep_seconds

    def claimed_named(self, *, is_complete: bool) -> None:
        """Schedule a look after a claim from named webhooks."""
        self._next_look_at = min(self._next_look_at, self._clock.monotonic() + _next_look(is_complete))

    def seconds_to_look(self) -> float:
        """Return the seconds until the next look is due."""
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


def _next_look(is_complete: bool) -> float:
    return LINGER_SECONDS if is_complete else LOOK_EVERY_SECONDS_LISTENING
