"""The rule for warning about a failing webhook, and for disabling it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from ...choices import retry_policy
from ...conf import settings
from ...models import WebhookHealth

SLOW = timedelta(hours=1)
"""Minimum span of a retry policy for which a single given-up delivery is sufficient evidence."""


class Verdict(enum.Enum):
    NONE = "none"
    WARN = "warn"
    DISABLE = "disable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Disable a webhook if all deliveries have been given up for the time of ``after``. Warn after half of it.

    Both require ``min_deliveries`` given up, with ``min_span`` between the first and the last. One is sufficient under
    a retry policy with a span of at least ``min_span``, because its delivery has failed for that time.
    """

    after: timedelta
    min_deliveries: int
    min_span: timedelta
    disables: bool = True

    @classmethod
    def configured(cls) -> Self:
        return cls(
            after=timedelta(days=settings.AUTO_DISABLE_AFTER_DAYS),
            min_deliveries=settings.AUTO_DISABLE_MIN_DELIVERIES,
            min_span=timedelta(hours=settings.AUTO_DISABLE_MIN_SPAN_HOURS),
            disables=settings.AUTO_DISABLE,
        )

    @property
    def warns_after(self) -> timedelta:
        return self.after / 2

    def verdict(self, health: WebhookHealth, now: datetime) -> Verdict:
        """Return the action for a webhook. DISABLE can come without an earlier warning."""
        if health.failing_since is None or not self.is_enough(health):
            return Verdict.NONE
        age = now - health.failing_since
        if self.disables and age >= self.after:
            return Verdict.DISABLE
        return Verdict.WARN if health.warned_at is None and age >= self.warns_after else Verdict.NONE

    def is_enough(self, health: WebhookHealth) -> bool:
        """Return True if the given-up deliveries are too many, over too long a time, for a temporary failure."""
        if health.failing_since is None or health.last_given_up_at is None:
            return False
        if retry_policy(health.webhook.retry_policy).span >= max(self.min_span, SLOW):
            return True
        span = health.last_given_up_at - health.failing_since
        return health.given_up_count >= self.min_deliveries and span >= self.min_span

    def disables_at(self, health: WebhookHealth) -> datetime | None:
        """Return the earliest time of disabling without a successful delivery, or None if it is never disabled."""
        if health.failing_since is None or not self.disables:
            return None
        return health.failing_since + self.after
