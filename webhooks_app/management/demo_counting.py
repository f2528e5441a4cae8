"""What workers would have counted of the demo data as they delivered it: roll-ups, and the health of webhooks."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ..health.moving import move_all
from ..models import Rollup, WebhookHealth
from ..models.rollup import OUTCOMES
from ..models.sql import writing
from ..rollups.counting import Resolution, TalliedWebhook
from ..rollups.rebuild import rebuild


def count_deliveries(using: str, webhook_ids: Collection[str], since: datetime, until: datetime) -> None:
    """Count what was delivered in this time, of which attempts are kept, and move health by it."""
    rebuild(using, since, until)
    hours = Rollup.objects.using(using).filter(resolution=Resolution.HOUR, webhook_id__in=webhook_ids)
    rows = hours.order_by("start").values_list("webhook_id", "start", *OUTCOMES)
    entries = [_entry(webhook_id, start, *outcomes) for webhook_id, start, *outcomes in rows]
    with writing(using, WebhookHealth):
        move_all(using, entries)


def _entry(webhook_id: str, start: datetime, at_once: int, later: int, given_up: int) -> TalliedWebhook:
    counters = {"succeeded_at_once": at_once, "succeeded_later": later, "given_up": given_up}
    return TalliedWebhook(webhook_id, start, counters, 0 if at_once or later else given_up)
