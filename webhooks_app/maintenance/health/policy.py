"""When a webhook has been failing for so long that its owner is warned, and when it is disabled."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from ...choices import retry_policy
from ...conf import settings
from ...models import WebhookHealth

SLOW = timedelta(hours=1)
"""Span of a retry policy below which one delivery that was given up is never evidence enough."""


class Verdict(enum.Enum):
    NONE = "none"
    WARN = "warn"
    DISABLE = "disable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Disabled is a webhook whose deliveries have all been given up for the time of ``after``; warned of at half of it.

    Neither happens before ``min_deliveries`` were given up, the last ``min_span`` after the first. One is enough under
    a retry policy that takes ``min_span`` itself: such a delivery has failed for that long.
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
        """Return what is to be done about a webhook now; one to be disabled may not have been warned of yet."""
        if health.failing_since is None or not self.is_enough(health):
            return Verdict.NONE
        age = now - health.failing_since
        if self.disables and age >= self.after:
            return Verdict.DISABLE
        return Verdict.WARN if health.warned_at is None and age >= self.warns_after else Verdict.NONE

    def is_enough(self, health: WebhookHealth) -> bool:
        """Tell whether so much was given up, over so long a time, that it can be no passing trouble."""
        if health.failing_since is None or health.last_given_up_at is None:
            return False
        if retry_policy(health.webhook.retry_policy).span >= max(self.min_span, SLOW):
            return True
        span = health.last_given_up_at - health.failing_since
        return health.given_up_count >= self.min_deliveries and span >= self.min_span

    def disables_at(self, health: WebhookHealth) -> datetime | None:
        """Return when a webhook is disabled at the earliest, unless a delivery succeeds; None where it never is."""
        if health.failing_since is None or not self.disables:
            return None
        return health.failing_since + self.after
