"""Tallies of given numbers, and the resulting roll-ups."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from webhooks_app.models import Rollup, Tally
from webhooks_app.models.rollup import EVERY_WEBHOOK
from webhooks_app.protocol.ids import new_id

NOW = datetime(2026, 3, 5, 14, 30, 20, tzinfo=UTC)
"""A Thursday, in the middle of a minute."""


def make_tally(at: datetime, given_up: Any = (), **webhooks: dict[str, int]) -> Tally:
    """Create the tally of a batch, with counts by webhook id."""
    counts = {webhook_id.removeprefix("wh_"): counters for webhook_id, counters in webhooks.items()}
    return Tally.objects.create(recorded_at=at, counts=json.dumps({"webhooks": counts, "given_up": list(given_up)}))


def rollups(webhook_id: str = EVERY_WEBHOOK) -> dict[tuple[str, datetime], dict[str, int]]:
    """Return the counters by resolution and start."""
    return {(row.resolution, row.start): row.counts for row in Rollup.objects.filter(webhook_id=webhook_id)}


@pytest.fixture
def webhook_id() -> str:
    return new_id("wh")


@pytest.fixture
def other_id() -> str:
    return new_id("wh")
