"""The loop that delivers: claim, send side by side, record in bulk, sleep until something is due."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, OperationalError, connections, router

from ..conf import settings
from ..egress import configured_transport
from ..models import Delivery
from ..retry import RetrySchedule
from ..transport import BaseTransport
from .announcing import announce
from .claim import Claim, Finished
from .clock import Clock, DatabaseClock
from .queue import Queue
from .recording import record
from .sending import finish, finish_lost, finish_unsent, request_for

logger = logging.getLogger("webhooks_app.delivery")

RECORD_WITHIN_SECONDS = 0.02
"""How long a result may wait for others to be written with it; the promise is 50 ms."""

LINGER_SECONDS = 0.25
"""How long an engine that finds nothing more keeps looking, so that new work need not wake it."""

LOOK_EVERY_SECONDS = 0.005
FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0
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
        self._schedule = RetrySchedule.of_seconds(settings.RETRY_DELAYS_SECONDS)
        self._queue = Queue(
            using=self._using,
            clock=self._clock,
            lease=timedelta(seconds=settings.LEASE_SECONDS),
            max_in_flight_per_webhook=settings.MAX_IN_FLIGHT_PER_WEBHOOK,
        )
        self._finished: list[Finished] = []
        self._record_at = 0.0
        self._retries: list[datetime] = []
        self._look_at = 0.0
        self._linger_until = 0.0
        self._found_nothing = False
        self._backoff_seconds = 0.0
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._stop_by = 0.0

    def wake(self) -> None:
        """Look for due deliveries now. Thread-safe."""
        self._woken.set()
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
            while not self._is_over(is_done):
                self._step()
        finally:
            self._transport.close()

    def _is_over(self, is_done: Callable[[], bool]) -> bool:
        if self._stopping.is_set() and self._clock.monotonic() > self._stop_by:
            logger.error("Stopped with %d results not recorded; their leases will end.", len(self._finished))
            return True
        if self._transport.in_flight or self._finished:
            return False
        return self._stopping.is_set() or is_done()

    def _has_retries(self) -> bool:
        """Tell whether a retry is to be made, those that an earlier process left included."""
        if not self._retries:
            next_due_at = self._queue.next_due_at()
            if next_due_at is not None:
                self._retries.append(next_due_at)
        return bool(self._retries)

    def _step(self) -> None:
        try:
            if self._should_look():
                self._claim_and_start()
            if self._should_record():
                self._record()
            self._note_recovery()
        except (OperationalError, InterfaceError) as error:
            self._back_off(error)
        self._collect(self._pause_seconds())

    def _collect(self, timeout_seconds: float) -> None:
        """Wait for exchanges that are over and decide what follows from each."""
        for exchange in self._transport.wait(timeout_seconds):
            self._add(finish(exchange, self._schedule))

    def _add(self, finished: Finished) -> None:
        if not self._finished:
            self._record_at = self._clock.monotonic() + RECORD_WITHIN_SECONDS
        self._finished.append(finished)

    # Looking for what is due

    def _should_look(self) -> bool:
        if self._stopping.is_set() or self._transport.in_flight >= self._window:
            return False
        if self._woken.is_set() or self._take_due_retries():
            self._linger_until = self._clock.monotonic() + LINGER_SECONDS
            return True
        return self._clock.monotonic() >= self._look_at

    def _take_due_retries(self) -> bool:
        now, due = self._clock(), False
        while self._retries and self._retries[0] <= now:
            heapq.heappop(self._retries)
            due = True
        return due

    def _claim_and_start(self) -> None:
        self._woken.clear()
        claims = self._queue.claim(min(self._window - self._transport.in_flight, self._batch_size))
        self._found_nothing = not claims
        now = self._clock.monotonic()
        if claims:
            self._linger_until = now + LINGER_SECONDS
        self._look_at = now + (LOOK_EVERY_SECONDS if now < self._linger_until else self._sweep_seconds)
        for index, claim in enumerate(claims):
            if self._stopping.is_set():
                self._queue.release(claims[index:])
                return
            self._start(claim)

    def _start(self, claim: Claim) -> None:
        if claim.is_lost:
            self._add(finish_lost(claim, self._schedule))
            return
        now = self._clock()
        try:
            request = request_for(claim, now=now, timeout_seconds=self._timeout_seconds)
        except Exception as error:  # One delivery that cannot be prepared may not stop the others.
            logger.exception("Delivery %s could not be prepared.", claim.delivery_id)
            self._add(finish_unsent(claim, error, now, self._schedule))
            return
        self._transport.start(request)

    # Recording

    def _should_record(self) -> bool:
        if not self._finished:
            return False
        enough = len(self._finished) >= self._batch_size or not self._transport.in_flight
        return enough or self._clock.monotonic() >= self._record_at

    def _record(self) -> None:
        valid = self._write(self._finished)
        self._finished = []
        self._look_at = 0.0  # Slots are free again, and notices may be due.
        self._found_nothing = False
        for item in valid:
            if item.step.next_attempt_at is not None:
                heapq.heappush(self._retries, item.step.next_attempt_at)
        announce(valid)

    def _write(self, finished: Sequence[Finished]) -> list[Finished]:
        try:
            return record(self._using, finished, self._clock())
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:
            if len(finished) == 1:
                logger.exception("Delivery %s could not be recorded.", finished[0].claim.delivery_id)
                return []
            return [valid for item in finished for valid in self._write([item])]

    # Waiting

    def _pause_seconds(self) -> float:
        """Return how long nothing but an exchange or a wake-up can give this loop something to do."""
        now = self._clock.monotonic()
        if self._backoff_seconds:
            return self._backoff_seconds
        until = now + self._sweep_seconds
        if self._finished:
            until = min(until, self._record_at)
        if not self._stopping.is_set() and self._transport.in_flight < self._window:
            until = min(until, self._look_at)
            if self._retries:
                until = min(until, now + (self._retries[0] - self._clock()).total_seconds())
        return max(0.0, until - now)

    def _back_off(self, error: Exception) -> None:
        if not self._backoff_seconds:
            logger.warning("Waiting for the database: %s", error)
        self._backoff_seconds = min(max(self._backoff_seconds * 2, FIRST_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)
        connections[self._using].close()

    def _note_recovery(self) -> None:
        if self._backoff_seconds:
            logger.info("The database is back.")
            self._backoff_seconds = 0.0
