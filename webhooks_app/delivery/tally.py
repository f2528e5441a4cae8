"""Counting what a batch of results comes to, for the roll-ups."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence

from ..models import Delivery
from ..models.rollup import BUCKETS_MS, COUNTERS, FAILURES
from .attempt_log import AttemptLog
from .claim import Finished
from .outcome import State

EVENT = Delivery.Kind.EVENT.value
PLACES = {name: place for place, name in enumerate(COUNTERS)}
AT_ONCE, LATER, GIVEN_UP = PLACES["succeeded_at_once"], PLACES["succeeded_later"], PLACES["given_up"]
FAILED = {failure: PLACES[f"failed_{failure}"] for failure in FAILURES}
FIRST_MS, MS_SUM = PLACES[f"ms_{BUCKETS_MS[0]}"], PLACES["ms_sum"]
FIRST_WAIT, WAIT_SUM = PLACES[f"wait_{BUCKETS_MS[0]}"], PLACES["wait_sum"]
SINCE_SUCCESS = len(COUNTERS)
NOTHING = (0,) * (SINCE_SUCCESS + 1)


def tally(finished: Sequence[Finished]) -> str:
    """Return the counts of these results as ``Tally.counts`` has them; "" where none of them is counted."""
    webhooks: dict[str, list[int]] = {}
    given_up: list[str] = []
    for claim, attempt, step, _ in finished:
        pick = claim.pick
        if pick.kind != EVENT:
            continue
        vector = webhooks.get(pick.webhook_id)
        if vector is None:
            vector = webhooks[pick.webhook_id] = list(NOTHING)
        _count(vector, attempt, step.state)
        if step.state is State.GIVEN_UP:
            given_up.append(pick.delivery_id[-32:])
    if not webhooks:
        return ""
    counts = {"webhooks": {webhook_id[-32:]: vector for webhook_id, vector in webhooks.items()}, "given_up": given_up}
    return json.dumps(counts, separators=(",", ":"))


def _count(vector: list[int], attempt: AttemptLog, state: State) -> None:
    if state is State.SUCCEEDED:
        vector[AT_ONCE if attempt.number == 1 else LATER] += 1
        vector[SINCE_SUCCESS] = 0
    else:
        vector[FAILED[attempt.result]] += 1
        if state is State.GIVEN_UP:
            vector[GIVEN_UP] += 1
            vector[SINCE_SUCCESS] += 1
    if attempt.response_status is not None:
        duration_ms = attempt.duration_ms or 0
        vector[FIRST_MS + bisect_left(BUCKETS_MS, duration_ms)] += 1
        vector[MS_SUM] += duration_ms
    if attempt.number == 1:
        queued_ms = int(attempt.delivery_id[-32:-20], 16)
        waited_ms = max(0, int(attempt.started_at.timestamp() * 1000) - queued_ms)
        vector[FIRST_WAIT + bisect_left(BUCKETS_MS, waited_ms)] += 1
        vector[WAIT_SUM] += waited_ms
