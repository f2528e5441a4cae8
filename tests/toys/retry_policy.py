"""A retry policy: each delay is twice the one before."""

from __future__ import annotations

from datetime import timedelta

from webhooks_app.retry import BaseRetryPolicy


class DoublingPolicy(BaseRetryPolicy):
    name = "doubling"
    description = "3 attempts: after 20 and 40 seconds."
    max_attempts = 3

    def delay(self, number: int) -> timedelta:
        return timedelta(seconds=10 * 2**number)
