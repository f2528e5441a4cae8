"""Periodic tasks to merge into ``CELERY_BEAT_SCHEDULE`` in the settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

__all__ = ["BEAT_SCHEDULE"]

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # Finds deliveries whose wake-up was lost. It expires because a late sweep is useless.
    "webhooks-deliver-due": {
        "task": "webhooks_app.deliver_due",
        "schedule": timedelta(seconds=5),
        "kwargs": {"by": "beat"},
        "options": {"expires": 30},
    },
    "webhooks-prune": {
        "task": "webhooks_app.prune",
        "schedule": timedelta(hours=1),
        "options": {"expires": 3600},
    },
}
