"""The time spans of roll-ups, and the contribution of a tally to each of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from ...models.rollup import EVERY_WEBHOOK, MISSED_FROM, SINCE_SUCCESS, Rollup, Tally

Resolution = Rollup.Resolution

EVER = datetime(2000, 1, 1, tzinfo=UTC)
"""The ``start`` of the roll-up over all time."""

Key: TypeAlias = tuple[str, str, datetime]
"""The webhook's id, the resolution, and the start of the span."""

Sums: TypeAlias = dict[str, int]
"""Numbers by counter name, without zeros."""


class TalliedWebhook(NamedTuple):
    """The counts of one batch for one webhook."""

    webhook_id: str
    recorded_at: datetime
    counters: Mapping[str, int]
    given_up_since_success: int
    """Number of deliveries given up after the last success, or of all given up without a success."""
    missed_from: datetime | None = None
    """The creation time of the oldest event that was given up or cancelled."""


def start_of(resolution: str, moment: datetime) -> datetime:
    """Return the start of the minute, hour or day (UTC) that contains ``moment``."""
    moment = moment.astimezone(UTC)
    if resolution == Resolution.EVER:
        return EVER
    if resolution == Resolution.DAY:
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if resolution == Resolution.HOUR:
        return moment.replace(minute=0, second=0, microsecond=0)
    return moment.replace(second=0, microsecond=0)


def read(tally: Tally) -> tuple[list[TalliedWebhook], list[str]]:
    """Return the counts of a tally by webhook, and the ids of the given-up deliveries."""
    counts: dict[str, Any] = json.loads(tally.counts)
    webhooks = [
        TalliedWebhook(
            f"wh_{digits}",
            tally.recorded_at,
            given_up_since_success=counters.pop(SINCE_SUCCESS, 0),
            missed_from=_moment(counters.pop(MISSED_FROM, None)),
            counters=counters,
        )
        for digits, counters in counts["webhooks"].items()
    ]
    return webhooks, [f"dlv_{digits}" for digits in counts["given_up"]]


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def add_up(entries: Iterable[TalliedWebhook]) -> dict[Key, Sums]:
    """Return the numbers to add to each roll-up."""
    by_minute: defaultdict[tuple[str, datetime], Sums] = defaultdict(dict)
    for recorded_at, of_one_moment in groupby(entries, lambda entry: entry.recorded_at):
        minute = start_of(Resolution.MINUTE, recorded_at)
        for entry in of_one_moment:
            if entry.counters:
                add(by_minute[entry.webhook_id, minute], entry.counters)
    sums: defaultdict[Key, Sums] = defaultdict(dict)
    for (webhook_id, minute), counters in by_minute.items():
        for resolution in (Resolution.MINUTE.value, Resolution.HOUR.value, Resolution.DAY.value):
            start = start_of(resolution, minute)
            add(sums[webhook_id, resolution, start], counters)
            add(sums[EVERY_WEBHOOK, resolution, start], counters)
        add(sums[EVERY_WEBHOOK, Resolution.EVER.value, EVER], counters)
    return sums


def add(sums: Sums, counters: Mapping[str, int]) -> None:
    for name, number in counters.items():
        sums[name] = sums.get(name, 0) + number
