"""How often what may happen, counted in Django's default cache, so that it holds for all processes together.

A limit's window begins with the first request in it and is over a period later. Requests are counted by the cache
itself, so that of many that come in the same moment no more are let through than of as many in a row.
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

from .conf import settings
from .egress import check_endpoint
from .exceptions import InvalidEndpointError, LimitsUnavailableError, RateLimitedError
from .models import Webhook

logger = logging.getLogger("webhooks_app.rate_limits")

PERIODS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86_400),
}

COUNT_BITS = 30
"""A window is one number, so that one step of the cache can count in it: when it began, and these bits of a count."""
STALE_SECONDS = 5
TURN_SECONDS = 2
MAX_TRIES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """At most ``rate`` (``"120/min"``; ``""`` for no limit) of what ``name`` says, on behalf of ``subject``."""

    name: str
    subject: object
    rate: str

    def take(self) -> float:
        """Count one more; return 0.0 where that is allowed, and else after how many seconds to come again.

        Raises LimitsUnavailableError where the cache cannot count.
        """
        if not self.rate:
            return 0.0
        number, _, period = self.rate.partition("/")
        allowed, seconds = int(number), PERIODS[period]
        try:
            count, ends_at = _count(caches[DEFAULT_CACHE_ALIAS], self._key, seconds, allowed)
        except Exception as error:  # The errors of caches have no base class in common.
            logger.exception("The rate limit of %s cannot be counted in the cache.", self.name)
            raise LimitsUnavailableError from error
        return 0.0 if count <= allowed else min(max(ends_at - time.time(), 1.0), seconds)

    @property
    def _key(self) -> str:
        # A digest, because no cache takes every host name as a part of a key.
        return f"webhooks_app.rate.{self.name}.{hashlib.sha256(str(self.subject).encode()).hexdigest()}"


def limit_test(webhook: Webhook) -> None:
    """Count a test event. Raises RateLimitedError, and LimitsUnavailableError where the cache cannot count."""
    _require(Limit(name="tests", subject=webhook.pk, rate=settings.TEST_RATE), *_probes(webhook))


def limit_verification(webhook: Webhook) -> None:
    """Count a verification, whatever starts it. Raises RateLimitedError and LimitsUnavailableError."""
    if webhook._state.adding:
        _require(*_probes(webhook))
        return
    _require(Limit(name="verifications", subject=webhook.pk, rate=settings.VERIFICATION_RATE), *_probes(webhook))


def _probes(webhook: Webhook) -> tuple[Limit, Limit]:
    """Return the limits of all that makes us call a URL of somebody's choice: else they could scan hosts by it."""
    rate = settings.PROBE_RATE
    return (
        Limit(name="owner", subject=webhook.owner_id, rate=rate),
        Limit(name="host", subject=_host(webhook), rate=rate),
    )


def _host(webhook: Webhook) -> str:
    try:
        return check_endpoint(webhook.url).host
    except InvalidEndpointError:
        # Nothing will be sent there, so there is no host to protect.
        return webhook.pk


def _require(*limits: Limit) -> None:
    for limit in limits:
        if wait_seconds := limit.take():
            raise RateLimitedError(wait_seconds)


def _count(cache: BaseCache, key: str, period: int, allowed: int) -> tuple[int, float]:
    """Count one more in the window, and begin one where there is none; return the count and the window's end."""
    if type(cache).incr is BaseCache.incr:
        # In the database and in files, that is a `get` and a `set`, between which others count as well.
        return _count_in_turn(cache, key, period, allowed)
    for _ in range(MAX_TRIES):
        if cache.add(key, first := _first_window(), period):
            return 1, _end(first, period)
        try:
            window = cache.incr(key)
        except ValueError:
            continue  # It was over in this moment.
        if _end(window, period) + STALE_SECONDS > time.time():
            return _counted(window), _end(window, period)
        # The cache should have dropped it. Redis does not if it was over in the midst of `incr`.
        cache.delete(key)
    raise TimeoutError(f"The cache neither adds {key} nor has it.")


def _count_in_turn(cache: BaseCache, key: str, period: int, allowed: int) -> tuple[int, float]:
    """Count with ``add`` alone as one step: who adds the name of a count is the one to set it."""
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
