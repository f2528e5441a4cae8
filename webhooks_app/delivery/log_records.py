"""Records of attempts for the host's log, with attributes for formatters that write JSON."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from .claim import Finished
from .outcome import Result

logger = logging.getLogger("webhooks_app.attempts")


def log_attempts(finished: Sequence[Finished]) -> None:
    """Log the attempts of a batch: those that failed as INFO, the others as DEBUG. Asks once for the level."""
    if not logger.isEnabledFor(logging.INFO):
        return
    shows_all = logger.isEnabledFor(logging.DEBUG)
    for item in finished:
        has_failed = item.attempt.result != Result.SUCCEEDED
        if has_failed:
            # What went wrong in words may quote the receiver, and is in the database.
            logger.info("Attempt %d of %s failed: %s.", *_words(item), item.attempt.result, extra=_attributes(item))
        elif shows_all:
            logger.debug("Attempt %d of %s succeeded.", *_words(item), extra=_attributes(item))


def _words(item: Finished) -> tuple[int, str]:
    return item.claim.number, item.claim.delivery_id


def _attributes(item: Finished) -> dict[str, object]:
    return {
        **item.claim.ids,
        "event_type": item.claim.event_type,
        "attempt": item.claim.number,
        "result": item.attempt.result,
        "duration_ms": item.attempt.duration_ms,
        "state": item.step.state.value,
    }
