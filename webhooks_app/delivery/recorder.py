"""Batching of results before recording, and the log records and signals after it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from ..conf import settings
from ..database.clock import Clock, following
from ..models import Delivery, DeliveryAttempt
from ..plurals import counted
from ..signals import attempt_made, delivery_given_up, delivery_succeeded
from .claim import Finished
from .outcome import State
from .recording import record
from .sql import sql_for

logger = logging.getLogger("webhooks_app.attempts")

RECORD_WITHIN_SECONDS = 0.02
"""How long a result waits at most for others. The documented limit is 50 ms."""

RECORD_WITHIN_SECONDS_LIGHT = 0.01
"""The same at light load."""

LIGHT_SHARE = 32
"""The load is light if less than this fraction of the window is in use."""

FOLD_SECONDS = 60.0
"""Time after a record in which further given-up deliveries to the same webhook are combined into one record."""

UNKNOWN_HOST = "an unknown host"

KINDS = {
    Delivery.Kind.EVENT.value: "event",
    Delivery.Kind.TEST.value: "test",
    Delivery.Kind.RETRY_NOTICE.value: "retry notice",
    Delivery.Kind.VERIFICATION.value: "verification",
}


class Recorder:
    """Record results in batches. ``put`` is thread-safe. ``turn`` must always be called from the same thread.

    ``in_flight`` returns the number of open claims. ``on_recorded`` is called with the results of each batch.
    """

    def __init__(
        self,
        *,
        using: str,
        clock: Clock,
        window: int,
        in_flight: Callable[[], int],
        on_recorded: Callable[[Sequence[Finished]], object],
    ) -> None:
        self._statements = sql_for(using)
        self._clock = clock
        self._light_load = window // LIGHT_SHARE
        self._batch_size = settings.BATCH_SIZE
        self._in_flight = in_flight
        self._on_recorded = on_recorded
        self._arrived: deque[Finished] = deque()
        self._batch: list[Finished] = []
        self._record_at = 0.0
        self._wake_at = 1
        self._attempt_logger = AttemptLogger(clock)

    @property
    def is_idle(self) -> bool:
        """Whether all results are recorded."""
        return not self._arrived and not self._batch

    def put(self, finished: Sequence[Finished]) -> bool:
        """Add results to the next batch. Return True if the batch is large enough to record."""
        self._arrived.extend(finished)
        return len(self._arrived) >= self._wake_at

    def turn(self) -> bool:
        """Record the batch if it is due. Return True if the database was used."""
        self._collect()
        self._attempt_logger.flush()
        is_due = bool(self._batch) and (len(self._batch) >= self._enough or self._clock.monotonic() >= self._record_at)
        if is_due:
            self._record()
        self._wake_at = max(1, self._enough - len(self._batch)) if self._batch else 1
        return is_due

    def end(self) -> None:
        """Write remaining log records after the last batch."""
        self._attempt_logger.flush(at_once=True)

    def pause_seconds(self) -> float | None:
        """Return the seconds until the next turn, or None to wait for ``put``."""
        if len(self._arrived) >= self._wake_at:  # added during the last turn
            return 0.0
        return max(0.0, self._record_at - self._clock.monotonic()) if self._batch else None

    @property
    def _is_light(self) -> bool:
        return self._in_flight() <= self._light_load

    @property
    def _enough(self) -> int:
        """The size of a batch to record at once: half of the open claims, so that the others continue meanwhile.

        At light load it is all of them, because a transaction and its tally cost more than the results.
        """
        in_flight = self._in_flight()
        return min(self._batch_size, max(1, in_flight if in_flight <= self._light_load else in_flight // 2))

    def _collect(self) -> None:
        is_new = not self._batch
        for _ in range(len(self._arrived)):
            self._batch.append(self._arrived.popleft())
        if is_new and self._batch:
            self._record_at = self._time_to_record()

    def _time_to_record(self) -> float:
        now = self._clock.monotonic()
        if not self._is_light:
            return now + RECORD_WITHIN_SECONDS
        # The next delivery of an ordered group cannot start before.
        is_ordered = any(item.claim.pick.is_ordered for item in self._batch)
        return now if is_ordered else now + RECORD_WITHIN_SECONDS_LIGHT

    def _record(self) -> None:
        finished = self._batch
        with following(self._clock):
            valid = record(self._statements, finished, self._clock())
        self._batch = []
        self._on_recorded(finished)
        self._attempt_logger.log(valid)
        announce(valid)


def announce(finished: Sequence[Finished]) -> None:
    """Send the signals for recorded attempts."""
    if not any(signal.receivers for signal in (attempt_made, delivery_succeeded, delivery_given_up)):
        return
    for item in finished:
        attempt_made.send_robust(DeliveryAttempt, attempt=item.attempt, **item.claim.ids)
        if item.claim.pick.kind == Delivery.Kind.VERIFICATION:
            continue  # The Webhook model sends the signals of a handshake.
        if item.step.state == State.SUCCEEDED:
            delivery_succeeded.send_robust(Delivery, **item.claim.ids)
        elif item.step.state == State.GIVEN_UP:
            delivery_given_up.send_robust(Delivery, attempt=item.attempt, **item.claim.ids)


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
            if item.step.state == State.GIVEN_UP and item.claim.pick.kind != Delivery.Kind.RETRY_NOTICE:
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
        webhook_id = item.claim.pick.webhook_id
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
    pick = item.claim.pick
    words = (item.claim.number, KINDS.get(pick.kind, pick.kind), item.claim.delivery_id, pick.webhook_id, _host(item))
    text = "Attempt %d of %s %s to webhook %s at %s: %s; %s."
    logger.log(level, text, *words, item.attempt.result, _outcome(item), extra=_attributes(item))


def _log_folded(item: Finished, number: int) -> None:
    """Log the number of further given-up deliveries to a webhook. ``item`` is the last of them."""
    pick = item.claim.pick
    words = (counted(number, "more delivery was", "more deliveries were"), pick.webhook_id, _host(item))
    text = "%s given up for webhook %s at %s; the last result is %s."
    logger.info(text, *words, item.attempt.result, extra={**_attributes(item), "folded": number})


def _outcome(item: Finished) -> str:
    if item.step.state == State.GIVEN_UP and item.claim.pick.kind == Delivery.Kind.RETRY_NOTICE:
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
        "kind": item.claim.pick.kind,
        "host": _host(item),
        "attempt": item.claim.number,
        "result": item.attempt.result,
        "duration_ms": item.attempt.duration_ms,
        "state": item.step.state.value,
    }
