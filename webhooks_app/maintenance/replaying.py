"""The job that advances replays: one step of each in turn, so that none has to wait for the end of another."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

from ..models import Replay
from ..replays.runner import advance

BUDGET_SECONDS = 0.2
"""Maximum duration of one run, so that the other jobs can run."""

LEAST_PAUSE_SECONDS = 0.05


def advance_replays(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Advance the active replays. Return the seconds until the next step, or None without active replays."""
    began = time.monotonic()
    waits: dict[str, float] = dict.fromkeys(_in_turn(using, facts.get("after", "")), 0.0)
    while ready := [replay_id for replay_id, wait in waits.items() if wait == 0.0]:
        for replay_id in ready:
            facts["after"] = replay_id  # stored even after an error, so that the next run starts with another
            spent = time.monotonic() - began
            wait = advance(using, replay_id, now + timedelta(seconds=spent))
            if wait is None:
                del waits[replay_id]
            else:
                waits[replay_id] = wait
            if time.monotonic() - began > BUDGET_SECONDS:
                return LEAST_PAUSE_SECONDS if waits else None
    return max(min(waits.values()), LEAST_PAUSE_SECONDS) if waits else None


def _in_turn(using: str, after: str) -> list[str]:
    """Return the active replays, starting after the last one that was advanced."""
    ids = sorted(Replay.objects.using(using).under_way().values_list("pk", flat=True))
    return [pk for pk in ids if pk > after] + [pk for pk in ids if pk <= after]
