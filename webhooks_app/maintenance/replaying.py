"""The job that carries replays on: each in its turn, a step at a time, so that none waits for the others to end."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

from ..models import Replay
from ..replays.runner import advance

BUDGET_SECONDS = 0.2
"""For how long at once, so that the other jobs come to their turn."""

LEAST_PAUSE_SECONDS = 0.05


def carry_replays(using: str, now: datetime, facts: dict[str, Any]) -> float | None:
    """Go on with the replays that are under way; return when there may be more to do, None where there is none."""
    began = time.monotonic()
    waits: dict[str, float] = dict.fromkeys(_in_turn(using, facts.get("after", "")), 0.0)
    while ready := [replay_id for replay_id, wait in waits.items() if wait == 0.0]:
        for replay_id in ready:
            facts["after"] = replay_id  # remembered also where it fails: the next one is not to suffer from it
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
    """Return the replays under way, from the one after the last that had its turn."""
    ids = sorted(Replay.objects.using(using).under_way().values_list("pk", flat=True))
    return [pk for pk in ids if pk > after] + [pk for pk in ids if pk <= after]
