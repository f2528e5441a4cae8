"""Removal of webhooks from the roll-ups, as if they had never been counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from webhooks_app.maintenance.rollups.folding import (
    EVER,
    Resolution,
    Sums,
    accounts_of,
    add,
    add_to_rollups,
    changing,
    fold,
)
from webhooks_app.models import Rollup, Webhook
from webhooks_app.models.rollup import EVERY_WEBHOOK


def remove(using: str, webhook_ids: Collection[str]) -> None:
    """Delete the roll-ups of these webhooks and of their accounts, and subtract the counters from those of all."""
    while fold(using).tallies:
        pass
    with changing(using):
        rollups = Rollup.objects.using(using).order_by()
        removed = rollups.filter(webhook_id__in=webhook_ids)
        totals = rollups.filter(webhook_id=EVERY_WEBHOOK).values_list("resolution", "start")
        sums: defaultdict[tuple[str, datetime], Sums] = defaultdict(dict)
        for resolution, start, counts in removed.values_list("resolution", "start", "counts").iterator():
            add(sums[resolution, start], counts)
            if resolution == Resolution.DAY:
                add(sums[Resolution.EVER, EVER], counts)
        negative = {
            (EVERY_WEBHOOK, *span): {name: -number for name, number in sums[span].items()}
            for span in totals
            if span in sums
        }
        add_to_rollups(using, negative)
        accounts = accounts_of(Webhook.objects.using(using).filter(pk__in=webhook_ids))
        rollups.filter(webhook_id__in={*webhook_ids, *accounts.values()}).delete()
