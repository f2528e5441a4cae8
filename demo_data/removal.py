"""Removal of webhooks from the roll-ups, as if they had never been counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from webhooks_app.maintenance.rollups.folding import EVER, Resolution, Sums, add, add_to_rollups, changing, fold
from webhooks_app.models import Rollup
from webhooks_app.models.rollup import EVERY_WEBHOOK


def remove(using: str, webhook_ids: Collection[str]) -> None:
    """Delete the roll-ups of these webhooks, and subtract their counters from the totals."""
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
        removed.delete()
