"""The counts of a batch of results for the roll-ups."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import MutableMapping, Sequence

from ..models import Delivery
from ..models.rollup import (
    BUCKETS_MS,
    FAILED,
    FIRST_ATTEMPT_DELAY,
    MISSED_FROM,
    RESPONSE_TIME,
    SINCE_SUCCESS,
    SUM,
    bucket_names,
)
from ..protocol.ids import milliseconds_of
from .attempt_log import AttemptLog
from .claim import Finished
from .outcome import State

EVENT = Delivery.Kind.EVENT.value
TOOK, WAITED = bucket_names(RESPONSE_TIME), bucket_names(FIRST_ATTEMPT_DELAY)
TOOK_SUM, WAITED_SUM = f"{RESPONSE_TIME}{SUM}", f"{FIRST_ATTEMPT_DELAY}{SUM}"


def tally(finished: Sequence[Finished]) -> str:
    """Return the counts of these results in the format of ``Tally.counts``, or "" if none of them counts."""
    webhooks: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    given_up: list[str] = []
    for claim, attempt, step, _ in finished:
        pick = claim.pick
        if pick.kind == EVENT:
            counters = webhooks[pick.webhook_id[-32:]]
            _count(counters, attempt, step.state)
            if step.state is State.GIVEN_UP:
                emitted_ms = milliseconds_of(str(pick.event_id))
                counters[MISSED_FROM] = min(counters.get(MISSED_FROM, emitted_ms), emitted_ms)
                given_up.append(pick.delivery_id[-32:])
    if not webhooks:
        return ""
    return json.dumps({"webhooks": webhooks, "given_up": given_up}, separators=(",", ":"))


def _count(counters: MutableMapping[str, int], attempt: AttemptLog, state: State) -> None:
    if state is State.SUCCEEDED:
        counters["succeeded_at_once" if attempt.number == 1 else "succeeded_later"] += 1
        counters.pop(SINCE_SUCCESS, None)
    else:
        counters[f"{FAILED}{attempt.result}"] += 1
        if state is State.GIVEN_UP:
            counters["given_up"] += 1
            counters[SINCE_SUCCESS] += 1
    if attempt.response_status is not None:
        duration_ms = attempt.duration_ms or 0
        counters[TOOK[bisect_left(BUCKETS_MS, duration_ms)]] += 1
        counters[TOOK_SUM] += duration_ms
    if attempt.number == 1:
        queued_ms = milliseconds_of(attempt.delivery_id)
        waited_ms = max(0, int(attempt.started_at.timestamp() * 1000) - queued_ms)
        counters[WAITED[bisect_left(BUCKETS_MS, waited_ms)]] += 1
        counters[WAITED_SUM] += waited_ms
