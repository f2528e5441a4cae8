"""Repair of blocked groups of ordered deliveries."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from typing import Any

from ..models import QueueEntry

logger = logging.getLogger("webhooks_app.maintenance")

SHARE = 0.01
"""Maximum share of the time for this job."""

USUAL_SECONDS = 60.0


def repair_groups(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Make the first delivery of each group due if it is parked. Reads all parked deliveries."""
    began_at = time.monotonic()
    repaired = QueueEntry.objects.using(using).repair()
    if repaired:
        logger.warning("Deliveries parked without a blocker are due again: %d.", repaired)
        facts["repaired"] = facts.get("repaired", 0) + repaired
    return max(USUAL_SECONDS, (time.monotonic() - began_at) / SHARE)
