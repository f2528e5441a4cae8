"""How many deliveries a webhook may have in flight where it has no limit of its own."""

from __future__ import annotations

from collections.abc import Iterable

from .claim import Finished
from .clock import Clock
from .outcome import Result

SHARE_OF_WINDOW = 4
"""A webhook fills at most a quarter of what one process can have in flight, so that three that hang leave room."""

SHARE_AFTER_TIMEOUT = 3
SLOW_FOR_SECONDS = 60.0


def usual_cap(window: int, configured: int) -> int:
    """Return what a webhook may have in flight for a process that can have ``window``."""
    return max(1, min(configured, window // SHARE_OF_WINDOW))


class Caps:
    """The configured cap, less for a webhook whose receiver let a request time out within the last minute.

    Such a receiver holds on to each place that it is given for as long as a timeout, so it is given few.
    """

    def __init__(self, *, clock: Clock, window: int, configured: int) -> None:
        self._clock = clock
        self._usual = usual_cap(window, configured)
        self._reduced = max(1, self._usual // SHARE_AFTER_TIMEOUT)
        self._slow_until: dict[str, float] = {}

    def of(self, webhook_id: str) -> int:
        """Return how many deliveries the webhook may have in flight now, over all workers."""
        until = self._slow_until.get(webhook_id)
        if until is None:
            return self._usual
        if self._clock.monotonic() < until:
            return self._reduced
        del self._slow_until[webhook_id]
        return self._usual

    def note(self, finished: Iterable[Finished]) -> None:
        """Take account of attempts that are over."""
        for item in finished:
            if item.attempt.result == Result.TIMEOUT:
                self._slow_until[item.claim.pick.webhook_id] = self._clock.monotonic() + SLOW_FOR_SECONDS
