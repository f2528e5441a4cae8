"""Records of attempts for the host's log, with attributes for formatters that write JSON."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from .claim import Finished
from .outcome import State

logger = logging.getLogger("webhooks_app.attempts")


def log_attempts(finished: Sequence[Finished]) -> None:
    """Log the attempts of a batch: those that ended in giving up as INFO, the others as DEBUG.

    Asks once for the level. Where a receiver is down, a line for each of its retries would hide everything else.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    shows_all = logger.isEnabledFor(logging.DEBUG)
    for item in finished:
        level = logging.INFO if item.step.state == State.GIVEN_UP else logging.DEBUG
        if level == logging.DEBUG and not shows_all:
            continue
        # What went wrong in words may quote the receiver, and is in the database.
        words = (item.claim.number, item.claim.delivery_id, item.attempt.result, item.step.state.value)
        logger.log(level, "Attempt %d of %s: %s; the delivery is %s.", *words, extra=_attributes(item))


def _attributes(item: Finished) -> dict[str, object]:
    return {
        **item.claim.ids,
        "event_type": item.claim.event_type,
        "attempt": item.claim.number,
        "result": item.attempt.result,
        "duration_ms": item.attempt.duration_ms,
        "state": item.step.state.value,
    }
