"""Outages of the database: when a worker asks it again, and what it does not do meanwhile."""

from __future__ import annotations

import logging
from threading import Lock

from django.db import connections

from ..database.clock import Clock

logger = logging.getLogger("webhooks_app.delivery")

FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0

OTHERS_RECORD_WITHIN_SECONDS = MAX_BACKOFF_SECONDS + 5.0
"""Time after an outage within which every other worker has reconnected and recorded its results."""


class Outage:
    """The state of an outage. Tries are repeated at growing intervals until the database is available again.

    The threads for claiming and recording share it.
    """

    def __init__(self, clock: Clock, using: str) -> None:
        self._clock = clock
        self._using = using
        self._lock = Lock()
        self._failing: set[str] = set()
        self._backoff_seconds = 0.0
        self._ask_again_at = 0.0
        self._lost_from = 0.0
        self._present_since = clock.monotonic()

    @property
    def is_open(self) -> bool:
        return bool(self._backoff_seconds)

    def has_failed(self, side: str) -> bool:
        """Return True if this side has failed and not succeeded since."""
        return side in self._failing

    @property
    def may_ask(self) -> bool:
        return self._clock.monotonic() >= self._ask_again_at

    @property
    def may_take_lost(self) -> bool:
        """Whether a claim with an expired lease is lost. Its worker may still be waiting for the database."""
        return not self.is_open and self._clock.monotonic() >= self._lost_from

    @property
    def present_seconds(self) -> float:
        """Seconds since the last outage, or 0 during one."""
        return 0.0 if self.is_open else self._clock.monotonic() - self._present_since

    def seconds_to_ask(self) -> float:
        return max(0.0, self._ask_again_at - self._clock.monotonic())

    def began(self, error: Exception, side: str = "") -> None:
        """Close the thread's connection, and schedule the next try."""
        with self._lock:
            self._failing.add(side)
            is_first = not self.is_open
            self._backoff_seconds = min(max(self._backoff_seconds * 2, FIRST_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)
            self._ask_again_at = self._clock.monotonic() + self._backoff_seconds
        if is_first:
            logger.warning("Waiting for the database: %s", " ".join(str(error).split()))
        connections[self._using].close()

    def ended(self, side: str = "") -> None:
        """Record the success of one side. The outage ends with the success of every failed side."""
        with self._lock:
            self._failing.discard(side)
            if self._failing or not self.is_open:
                return
            self._backoff_seconds = self._ask_again_at = 0.0
            self._present_since = self._clock.monotonic()
            self._lost_from = self._present_since + OTHERS_RECORD_WITHIN_SECONDS
        logger.info("The database is back.")
