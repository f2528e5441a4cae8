"""Log records of attempts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..database.clock import Clock
from ..models import Delivery
from ..plurals import counted
from .claim import Finished
from .outcome import State

logger = logging.getLogger("webhooks_app.attempts")

FOLD_SECONDS = 60.0
"""Time after a record in which further given-up deliveries to the same webhook are combined into one record."""

UNKNOWN_HOST = "an unknown host"

KINDS = {
    Delivery.Kind.EVENT.value: "event",
    Delivery.Kind.TEST.value: "test",
    Delivery.Kind.RETRY_NOTICE.value: "retry notice",
    Delivery.Kind.VERIFICATION.value: "verification",
}


class AttemptLogger:
    """Log attempts: given-up deliveries with level INFO, others with DEBUG.

    A webhook with many given-up deliveries has one INFO record per minute, with the number of the others. A failed
    retry notice is logged with DEBUG, because it is never repeated and ends no delivery of an event.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._folded: dict[str, tuple[float, int, Finished]] = {}

    def log(self, finished: Sequence[Finished]) -> None:
        """Log the attempts of a batch."""
        if not logger.isEnabledFor(logging.INFO):
            return
        shows_all = logger.isEnabledFor(logging.DEBUG)
        for item in finished:
            if item.step.state == State.GIVEN_UP and item.claim.kind != Delivery.Kind.RETRY_NOTICE:
                self._log_given_up(item, shows_all)
            elif shows_all:
                _log(logging.DEBUG, item)
        self.flush()

    def flush(self, *, at_once: bool = False) -> None:
        """Log the numbers of combined deliveries whose minute is over, or all with ``at_once``."""
        now = self._clock.monotonic()
        for webhook_id, (until, number, item) in list(self._folded.items()):
            if at_once or now >= until:
                del self._folded[webhook_id]
                if number:
                    _log_folded(item, number)

    def _log_given_up(self, item: Finished, shows_all: bool) -> None:
        webhook_id = item.claim.webhook_id
        now = self._clock.monotonic()
        until, number, _ = self._folded.get(webhook_id, (0.0, 0, item))
        if now < until:
            self._folded[webhook_id] = until, number + 1, item
            if shows_all:
                _log(logging.DEBUG, item)
            return
        if number:
            _log_folded(item, number)
        self._folded[webhook_id] = now + FOLD_SECONDS, 0, item
        _log(logging.INFO, item)


def _log(level: int, item: Finished) -> None:
    # Without the attempt's message, which may quote the receiver. It is in the database.
    claim = item.claim
    words = (claim.number, KINDS.get(claim.kind, claim.kind), claim.delivery_id, claim.webhook_id, _host(item))
    text = "Attempt %d of %s %s to webhook %s at %s: %s; %s."
    logger.log(level, text, *words, item.attempt.result, _outcome(item), extra=_attributes(item))


def _log_folded(item: Finished, number: int) -> None:
    """Log the number of further given-up deliveries to a webhook. ``item`` is the last of them."""
    claim = item.claim
    words = (counted(number, "more delivery was", "more deliveries were"), claim.webhook_id, _host(item))
    text = "%s given up for webhook %s at %s; the last result is %s."
    logger.info(text, *words, item.attempt.result, extra={**_attributes(item), "folded": number})


def _outcome(item: Finished) -> str:
    if item.step.state == State.GIVEN_UP and item.claim.kind == Delivery.Kind.RETRY_NOTICE:
        return "a notice is not repeated"
    return {
        State.SUCCEEDED: "the delivery succeeded",
        State.PENDING: "it will be retried",
        State.GIVEN_UP: "the delivery is given up",
    }.get(item.step.state, item.step.state.value)


def _host(item: Finished) -> str:
    # Only the host, because the path or query may contain a token.
    try:
        return urlsplit(item.claim.lane.url).hostname or UNKNOWN_HOST
    except ValueError:
        return UNKNOWN_HOST


def _attributes(item: Finished) -> dict[str, object]:
    return {
        **item.claim.ids,
        "event_type": item.claim.event_type,
        "kind": item.claim.kind,
        "host": _host(item),
        "attempt": item.claim.number,
        "result": item.attempt.result,
        "duration_ms": item.attempt.duration_ms,
        "state": item.step.state.value,
    }
