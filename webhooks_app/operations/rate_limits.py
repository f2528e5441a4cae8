"""Rate limits, counted in Django's default cache and therefore shared by all processes.

A limit's window starts with its first request and ends a period later. The cache itself counts, so that simultaneous
requests are limited like successive ones.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
import time
from dataclasses import dataclass

from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.base import BaseCache

from ..conf import parse_rate, settings
from ..exceptions import LimitsUnavailableError, RateLimitedError
from ..models import Webhook
from ..reasons import ReasonText
from .actors import BaseActor

logger = logging.getLogger("webhooks_app.rate_limits")

COUNT_BITS = 30
"""A window is stored as one number, for atomic counting: the time of its start, then a count of this many bits."""
STALE_SECONDS = 5
TURN_SECONDS = 2
MAX_TRIES = 10


COUNTED = {
    "requests": ReasonText("counted_requests"),
    "emitting": ReasonText("counted_emitting"),
    "tests": ReasonText("counted_tests"),
    "verifications": ReasonText("counted_verifications"),
    "probes": ReasonText("counted_probes"),
}
"""The names of the limits, with noun phrases for messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """At most ``rate`` (``"120/min"``; ``""`` for no limit) requests of one ``subject``; ``name`` is in ``COUNTED``."""

    name: str
    subject: object
    rate: str

    def take(self) -> float:
        """Count a request; return 0.0 if it is allowed, otherwise the number of seconds until one can be.

        Raise LimitsUnavailableError if the cache cannot count.
        """
        if not self.rate:
            return 0.0
        allowed, seconds = parse_rate(self.rate)
        try:
            count, ends_at = _count(caches[DEFAULT_CACHE_ALIAS], self._key, seconds, allowed)
        except Exception as error:  # The errors of caches have no base class in common.
            logger.exception("The rate limit of %s cannot be counted in the cache.", self.name)
            raise LimitsUnavailableError from error
        return 0.0 if count <= allowed else min(max(ends_at - time.time(), 1.0), seconds)

    def require(self) -> None:
        """Count one more request. Raise RateLimitedError if it is not allowed, and LimitsUnavailableError."""
        if wait_seconds := self.take():
            raise RateLimitedError(wait_seconds, limit=self.name, rate=self.rate, counted=COUNTED[self.name])

    @property
    def _key(self) -> str:
        # A digest, because a cache need not accept every subject as a part of a key.
        return f"webhooks_app.rate.{self.name}.{hashlib.sha256(str(self.subject).encode()).hexdigest()}"


def limit_test(webhook: Webhook, *, actor: BaseActor) -> None:
    """Count a test event before it is queued. Raise RateLimitedError and LimitsUnavailableError."""
    if actor.is_throttled:
        Limit(name="tests", subject=webhook.pk, rate=settings.TEST_RATE).require()
        _probes(webhook).require()


def limit_verification(webhook: Webhook, *, actor: BaseActor) -> None:
    """Count a verification before it is queued, for any reason. Raise as ``limit_test``."""
    if not actor.is_throttled:
        return
    if not webhook._state.adding:
        Limit(name="verifications", subject=webhook.pk, rate=settings.VERIFICATION_RATE).require()
    _probes(webhook).require()


def _probes(webhook: Webhook) -> Limit:
    """Return the limit of all requests to URLs chosen by an account, which could otherwise scan hosts.

    Hosts have no limit: accounts with a common receiver would use up each other's limit.
    """
    return Limit(name="probes", subject=webhook.owner_id, rate=settings.PROBE_RATE)


def _count(cache: BaseCache, key: str, period: int, allowed: int) -> tuple[int, float]:
    """Count a request in the window, or start a new window; return the count and the window's end."""
    if type(cache).incr is BaseCache.incr:
        # These caches count by a `get` and a `set`, and other processes can count in between.
        return _count_in_turn(cache, key, period, allowed)
    for _ in range(MAX_TRIES):
        if cache.add(key, first := _first_window(), period):
            return 1, _end(first, period)
        try:
            window = cache.incr(key)
        except ValueError:
            continue  # it has just expired
        if _end(window, period) + STALE_SECONDS > time.time():
            return _counted(window), _end(window, period)
        # The cache should have dropped it. Redis does not if it expires during `incr`.
        cache.delete(key)
    raise TimeoutError(f"The cache neither stores nor returns {key}.")


def _count_in_turn(cache: BaseCache, key: str, period: int, allowed: int) -> tuple[int, float]:
    """Count with ``add`` as the only atomic step: only the process that adds the name of a count may set it."""
    give_up_at = time.monotonic() + TURN_SECONDS
    while time.monotonic() < give_up_at:
        window: int | None = cache.get(key)
        if window is None or _end(window, period) <= time.time():
            window, turn = _first_window(), f"{key}.{time.time() // period:.0f}"
        elif _counted(window) >= allowed:
            return allowed + 1, _end(window, period)
        else:
            window, turn = window + 1, f"{key}.{window}"
        if cache.add(turn, True, TURN_SECONDS * 2):
            cache.set(key, window, max(1, math.ceil(_end(window, period) - time.time())))
            return _counted(window), _end(window, period)
        time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 (so that they do not all come again together)
    return allowed + 1, time.time() + 1


def _first_window() -> int:
    return math.ceil(time.time()) << COUNT_BITS | 1


def _counted(window: int) -> int:
    return window % (1 << COUNT_BITS)


def _end(window: int, period: int) -> float:
    return (window >> COUNT_BITS) + period
