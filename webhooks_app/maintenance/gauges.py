"""Periodic counts of the queue, so that readers need not scan it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from django.db.models import Count, Q

from ..models import QueueEntry
from ..models.hold import is_due, is_held
from ..protocol.times import format_time

SHARE = 0.01
"""Maximum share of the time for counting. A slow count is repeated less often."""

USUAL_SECONDS = 15.0


def gauge(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Count the queue in one scan: ``waiting``, with its parts ``due`` and ``held``, and ``in_flight``.

    ``held`` deliveries need a change of their webhook. They do not count as due.
    """
    began_at = time.monotonic()
    facts.update(_counts(using, now), at=format_time(now))
    took_seconds = time.monotonic() - began_at
    facts["took_ms"] = round(took_seconds * 1000)
    return max(USUAL_SECONDS, took_seconds / SHARE)


def _counts(using: str, now: datetime) -> dict[str, int]:
    waiting = Q(claimed_at=None)
    return QueueEntry.objects.using(using).aggregate(
        waiting=Count("pk", filter=waiting),
        due=Count("pk", filter=is_due(now)),
        held=Count("pk", filter=is_held()),
        in_flight=Count("pk", filter=~waiting),
    )
