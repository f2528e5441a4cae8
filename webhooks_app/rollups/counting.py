"""The time spans that roll-ups are kept for, and what a tally adds to each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..models.rollup import COUNTERS, EVERY_WEBHOOK, Rollup, Tally

Resolution = Rollup.Resolution

EVER = datetime(2000, 1, 1, tzinfo=UTC)
"""The ``start`` of the one roll-up that counts from the beginning."""

Key = tuple[str, str, datetime]
"""A webhook's id, a resolution, and the start of the span."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TalliedWebhook:
    """What one batch says of one webhook."""

    webhook_id: str
    recorded_at: datetime
    counters: list[int]
    given_up_since_success: int
    """How many deliveries were given up after the last that succeeded, or at all where none did."""


def start_of(resolution: str, moment: datetime) -> datetime:
    """Return the start of the minute, hour or day, in UTC, that a moment lies in."""
    moment = moment.astimezone(UTC)
    if resolution == Resolution.EVER:
        return EVER
    if resolution == Resolution.DAY:
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if resolution == Resolution.HOUR:
        return moment.replace(minute=0, second=0, microsecond=0)
    return moment.replace(second=0, microsecond=0)


def read(tally: Tally) -> tuple[list[TalliedWebhook], list[str]]:
    """Return what a tally says of each webhook, and the deliveries that were given up."""
    counts: dict[str, Any] = json.loads(tally.counts)
    webhooks = [
        TalliedWebhook(
            webhook_id=f"wh_{digits}",
            recorded_at=tally.recorded_at,
            counters=vector[:-1],
            given_up_since_success=vector[-1],
        )
        for digits, vector in counts["webhooks"].items()
    ]
    return webhooks, [f"dlv_{digits}" for digits in counts["given_up"]]


def add_up(entries: Iterable[TalliedWebhook]) -> dict[Key, list[int]]:
    """Return what is to be added to each roll-up."""
    by_minute: dict[tuple[str, datetime], list[int]] = {}
    for entry in entries:
        minute = start_of(Resolution.MINUTE, entry.recorded_at)
        for webhook_id in (entry.webhook_id, EVERY_WEBHOOK):
            add(by_minute.setdefault((webhook_id, minute), nothing()), entry.counters)
    sums: dict[Key, list[int]] = {}
    for (webhook_id, minute), counters in by_minute.items():
        for resolution in _resolutions(webhook_id):
            key = webhook_id, resolution, start_of(resolution, minute)
            add(sums.setdefault(key, nothing()), counters)
    return sums


def _resolutions(webhook_id: str) -> Iterator[str]:
    yield from (Resolution.MINUTE.value, Resolution.HOUR.value, Resolution.DAY.value)
    if webhook_id == EVERY_WEBHOOK:
        yield Resolution.EVER.value


def nothing() -> list[int]:
    return [0] * len(COUNTERS)


def add(counters: list[int], more: Iterable[int]) -> None:
    counters[:] = map(int.__add__, counters, more)
