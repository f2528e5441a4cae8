"""The periodic tasks, to be merged into ``CELERY_BEAT_SCHEDULE`` by a settings file."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # Finds what every wake-up missed. A sweep that nobody took in time is worth nothing: hence the expiry.
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
