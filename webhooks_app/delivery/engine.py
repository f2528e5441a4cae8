"""The loop that delivers: claim, send side by side, record in bulk, sleep until something is due."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, connections, router

from ..conf import settings
from ..egress import configured_transport
from ..models import Delivery
from ..models.delivery import configured_schedule
from ..transport import BaseTransport
from .agenda import LINGER_SECONDS, Agenda
from .announcing import announce
from .claim import Claim, Finished
from .clock import Clock, DatabaseClock
from .queue import Queue
from .recording import record
from .sending import finish, finish_lost, finish_unsent, request_for

logger = logging.getLogger("webhooks_app.delivery")

RECORD_WITHIN_SECONDS = 0.02
"""How long a result may wait for others to be written with it; the promise is 50 ms."""

STOP_GRACE_SECONDS = 10.0


class Engine:
    """Delivers what is due through one transport. Runs in one thread; only ``wake`` and ``stop`` are for others."""

    def __init__(
        self,
        *,
        transport: BaseTransport | None = None,
        clock: Clock | None = None,
        using: str | None = None,
    ) -> None:
        self._using = using or router.db_for_write(Delivery)
        self._clock = clock or DatabaseClock(self._using)
        self._transport = transport or configured_transport()
        self._window = min(settings.MAX_IN_FLIGHT, self._transport.capacity)
        self._batch_size = settings.BATCH_SIZE
        self._timeout_seconds = settings.TIMEOUT_SECONDS
        self._sweep_seconds = settings.SWEEP_SECONDS
        self._schedule = configured_schedule()
        self._agenda = Agenda(self._clock, sweep_seconds=self._sweep_seconds)
        self._queue = Queue(
            using=self._using,
            clock=self._clock,
            lease=timedelta(seconds=settings.LEASE_SECONDS),
            max_in_flight_per_webhook=settings.MAX_IN_FLIGHT_PER_WEBHOOK,
        )
        self._finished: list[Finished] = []
        self._unrecorded: dict[str, int] = {}
        self._record_at = 0.0
        self._found_nothing = False
        self._stopping = threading.Event()
        self._stop_by = 0.0

    def wake(self) -> None:
        """Look for due deliveries now. Thread-safe."""
        self._agenda.wake()
        self._transport.wake()

    def stop(self) -> None:
        """Claim nothing more; ``run`` returns when what is in flight has ended and is recorded. Thread-safe."""
        self._stop_by = self._clock.monotonic() + self._timeout_seconds + STOP_GRACE_SECONDS
        self._stopping.set()
        self._transport.wake()

    def run(self) -> None:
        """Deliver until ``stop`` is called."""
        self._run(lambda: False)

    def run_until_idle(self, *, await_retries: bool = True) -> None:
        """Deliver until nothing is due or in flight, nor, if they are awaited, any retry still to be made."""
        self._run(lambda: self._found_nothing and not (await_retries and self._has_retries()))

    def _run(self, is_done: Callable[[], bool]) -> None:
        try:
            while not self._step(is_done):
                for exchange in self._transport.wait(self._pause_seconds()):
                    self._add(finish(exchange, self._schedule))
        finally:
            self._transport.close()

    def _step(self, is_done: Callable[[], bool]) -> bool:
        """Do what is to be done now; return whether it was the last."""
        if self._agenda.may_ask_database:
            try:
                self._ask_database()
                if self._has_ended(is_done):
                    return True
            except (DatabaseError, InterfaceError) as error:
                self._wait_for_database(error)
        return self._stopping.is_set() and self._is_out_of_time()

    def _ask_database(self) -> None:
        looked = self._should_look()
        if looked:
            self._claim_and_start()
        recorded = self._should_record()
        if recorded:
            self._record()
        if self._agenda.is_backing_off and (looked or recorded):
            logger.info("The database is back.")
            self._agenda.database_answered()

    def _has_ended(self, is_done: Callable[[], bool]) -> bool:
        if self._transport.in_flight or self._finished:
            return False
        return self._stopping.is_set() or is_done()

    def _is_out_of_time(self) -> bool:
        if self._clock.monotonic() <= self._stop_by:
            return False
        logger.error("Stopped with %d results not recorded; their leases will end.", len(self._finished))
        return True

    def _has_retries(self) -> bool:
        """Tell whether a retry is to be made, those that an earlier process left included."""
        if not self._agenda.expects_retries:
            next_due_at = self._queue.next_due_at()
            if next_due_at is not None:
                # What is overdue is waiting for another worker: for a webhook that it holds, or whose cap it fills.
                soon = self._clock() + timedelta(seconds=LINGER_SECONDS)
                self._agenda.expect_retry(next_due_at if next_due_at > self._clock() else soon)
        return self._agenda.expects_retries

    def _should_look(self) -> bool:
        has_room = not self._stopping.is_set() and self._transport.in_flight < self._window
        return has_room and self._agenda.is_look_due()

    def _claim_and_start(self) -> None:
        began_at = self._clock.monotonic()
        claims = self._queue.claim(min(self._window - self._transport.in_flight, self._batch_size))
        self._found_nothing = not claims
        self._agenda.looked(found=bool(claims), took_seconds=self._clock.monotonic() - began_at)
        for index, claim in enumerate(claims):
            if self._stopping.is_set():
                self._queue.release(claims[index:])
                return
            self._start(claim)

    def _start(self, claim: Claim) -> None:
        if claim.is_lost:
            # Not what this engine is still at: the clock jumped, or the database was away for longer than the lease.
            if self._unrecorded.get(claim.delivery_id) != claim.number:
                self._add(finish_lost(claim, self._schedule))
            return
        now = self._clock()
        try:
            request = request_for(claim, now=now, timeout_seconds=self._timeout_seconds)
        except Exception as error:  # One delivery that cannot be prepared may not stop the others.
            logger.exception("Delivery %s could not be prepared.", claim.delivery_id)
            self._add(finish_unsent(claim, error, now, self._schedule))
            return
        self._unrecorded[claim.delivery_id] = claim.number
        self._transport.start(request)

    def _add(self, finished: Finished) -> None:
        if not self._finished:
            self._record_at = self._clock.monotonic() + RECORD_WITHIN_SECONDS
        self._finished.append(finished)

    def _should_record(self) -> bool:
        if not self._finished:
            return False
        enough = len(self._finished) >= self._batch_size or not self._transport.in_flight
        return enough or self._clock.monotonic() >= self._record_at

    def _record(self) -> None:
        valid = self._write(self._finished)
        for item in self._finished:
            if self._unrecorded.get(item.claim.delivery_id) == item.claim.number:
                del self._unrecorded[item.claim.delivery_id]
        self._finished = []
        self._found_nothing = False
        self._agenda.look_soon()
        for item in valid:
            if item.step.next_attempt_at is not None:
                self._agenda.expect_retry(item.step.next_attempt_at)
        announce(valid)

    def _write(self, finished: Sequence[Finished]) -> list[Finished]:
        try:
            return record(self._using, finished, self._clock())
        except (DataError, IntegrityError):
            if len(finished) == 1:
                logger.exception("Delivery %s could not be recorded.", finished[0].claim.delivery_id)
                return []
            return [valid for item in finished for valid in self._write([item])]

    def _wait_for_database(self, error: Exception) -> None:
        if not self._agenda.is_backing_off:
            logger.warning("Waiting for the database: %s", error)
        self._agenda.database_failed()
        connections[self._using].close()

    def _pause_seconds(self) -> float:
        """Return for how long nothing but an exchange or a wake-up can give this loop something to do."""
        if self._agenda.is_backing_off:
            return self._agenda.seconds_to_ask()
        seconds = self._sweep_seconds
        if self._finished:
            seconds = min(seconds, self._record_at - self._clock.monotonic())
        if not self._stopping.is_set() and self._transport.in_flight < self._window:
            seconds = min(seconds, self._agenda.seconds_to_look())
        return max(0.0, seconds)
