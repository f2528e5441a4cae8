"""The built-in policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from .base import BaseRetryPolicy


class DelaysPolicy(BaseRetryPolicy):
    """A list of delays: one more attempt than delays."""

    delays_seconds: ClassVar[Sequence[float]] = ()

    @property
    def max_attempts(self) -> int:  # type: ignore[override]
        return 1 + len(self.delays_seconds)

    def delay(self, number: int) -> timedelta:
        return timedelta(seconds=self.delays_seconds[number - 1])


class SpecificationPolicy(DelaysPolicy):
    """Interface, Limits: at most 3 retries, after 1, 5 and 30 seconds."""

    name = "specification"
    description = "4 attempts: after 1, 5 and 30 seconds."
    delays_seconds = (1, 5, 30)


class ExtendedPolicy(DelaysPolicy):
    """The schedule that Standard Webhooks recommends, with jitter: 10 attempts in about three days."""

    name = "extended"
    description = "10 attempts in about three days: after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h."
    delays_seconds = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
    jitter = 0.1
    max_retry_after = timedelta(days=1)
