"""Due time of the oldest delivery that could be sent now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import Min

from ..models import QueueEntry, Webhook
from ..models.hold import is_due
from .lanes import MAX_LANES
from .sql import sql_for


def oldest_due_at(using: str, now: datetime, *, among: Collection[str] | None = None) -> datetime | None:
    """Return the due time of the oldest sendable delivery, or None if none is due.

    ``among`` limits the search to these webhook ids. Deliveries held by a pause or a pending verification are excluded.
    The query reads a few index entries per webhook, and all pending deliveries of inactive webhooks.
    """
    sql = sql_for(using)
    oldest: list[datetime] = []
    after = None
    while True:
        page = sql.due_webhooks(now, after=after)
        due = {found.webhook_id: found.due_at for found in page if found.due_at is not None and found.due_at <= now}
        wanted = list(due) if among is None else list(due.keys() & among)
        oldest += _oldest_due_of(using, wanted, due, now)
        if len(page) < MAX_LANES:
            return min(oldest, default=None)
        after = page[-1].webhook_id


def _oldest_due_of(
    using: str, webhook_ids: Collection[str], due: Mapping[str, datetime], now: datetime
) -> list[datetime]:
    """Return the due times of the oldest sendable deliveries of these webhooks."""
    if not webhook_ids:
        return []
    active = set(Webhook.objects.using(using).active().filter(pk__in=webhook_ids).values_list("pk", flat=True))
    others = QueueEntry.objects.using(using).filter(is_due(now), webhook__in=set(webhook_ids) - active)
    first = others.aggregate(at=Min("due_at"))["at"]
    return [*(due[pk] for pk in active), *([first] if first else [])]
