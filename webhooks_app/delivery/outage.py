"""The database's absence, as the threads of an engine see it: who asks again when, and from when claims are lost."""

from __future__ import annotations

import logging

from django.db import connections

from ..database.clock import Clock

logger = logging.getLogger("webhooks_app.delivery")

FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0

OTHERS_RECORD_WITHIN_SECONDS = MAX_BACKOFF_SECONDS + 5.0
"""Within what time, once the database is back, every other worker has noticed and recorded what it held."""


class Outage:
    """Asks are made at growing intervals while the database is away, and at any time while it is there."""

    def __init__(self, clock: Clock, using: str) -> None:
        self._clock = clock
        self._using = using
        self._failing: set[str] = set()
        self._backoff_seconds = 0.0
        self._ask_again_at = 0.0
        self._lost_from = 0.0
        self._present_since = clock.monotonic()

    @property
    def is_open(self) -> bool:
        return bool(self._backoff_seconds)

    def has_failed(self, side: str) -> bool:
        """Return True if this side failed and was not answered since."""
        return side in self._failing

    @property
    def may_ask(self) -> bool:
        return self._clock.monotonic() >= self._ask_again_at

    @property
    def may_take_lost(self) -> bool:
        """Whether a claim whose lease has ended is lost: not while its worker may be waiting for the database too."""
        return not self.is_open and self._clock.monotonic() >= self._lost_from

    @property
    def present_seconds(self) -> float:
        """For how long the database has been there without a break; 0 while it is away."""
        return 0.0 if self.is_open else self._clock.monotonic() - self._present_since

    def seconds_to_ask(self) -> float:
        return max(0.0, self._ask_again_at - self._clock.monotonic())

    def began(self, error: Exception, side: str = "") -> None:
        """Close the thread's connection and ask again after a while."""
        self._failing.add(side)
        if not self.is_open:
            logger.warning("Waiting for the database: %s", " ".join(str(error).split()))
        self._backoff_seconds = min(max(self._backoff_seconds * 2, FIRST_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)
        self._ask_again_at = self._clock.monotonic() + self._backoff_seconds
        connections[self._using].close()

    def ended(self, side: str = "") -> None:
        """Note that this side was answered; the outage is over once every side that failed was."""
        self._failing.discard(side)
        if self._failing:
            return
        if self.is_open:
            logger.info("The database is back.")
            self._backoff_seconds = self._ask_again_at = 0.0
            self._present_since = self._clock.monotonic()
            self._lost_from = self._present_since + OTHERS_RECORD_WITHIN_SECONDS
