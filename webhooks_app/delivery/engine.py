"""The main loop of delivery: send claimed deliveries concurrently, and pass on their results."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.utils import translation

from ..conf import LANGUAGE, configured_transport, problem_with_lease, settings, user_agent
from ..database.clock import Clock, DatabaseClock
from ..database.sql import kind_of
from ..exceptions import SchemeUnavailableError, SecretUnreadableError
from ..models import Delivery
from ..once import Once
from ..transport import BaseTransport, Exchange
from .claim import Claim, Finished
from .sending import Sending, finish, finish_unsent, request_for
from .spans import delivery_spans
from .worker import DeliveryWorker, WorkerThreads

__all__ = ["Engine"]

logger = logging.getLogger("webhooks_app.delivery")

STARTS_AT_A_TIME = 64
"""Requests to start before checking for responses, so that results arrive while a batch is being started."""

NEW_OBJECTS = 10_000
"""New objects between two garbage collections. Python's 700 (2,000 since Python 3.13) take up to 2 % of the CPU
time, because requests make many."""

WAIT_SECONDS = 60.0
"""Upper bound of the engine's sleep. The worker's threads wake it earlier."""

UNSIGNABLE = (SecretUnreadableError, SchemeUnavailableError, ImproperlyConfigured)
"""The errors of a worker whose keys or signature schemes differ from those of others, or are invalid."""


class Engine:
    """Deliver through one transport. Only ``wake`` and ``stop`` may be called from other threads.

    With ``database_thread``, separate threads access the database, so that neither it nor the receivers wait for each
    other. Otherwise everything runs in the caller's thread, on its connection and in its transaction. ``is_woken`` is
    True if messages call ``wake`` after each commit, so that polling a server is unnecessary.
    """

    def __init__(
        self,
        *,
        transport: BaseTransport | None = None,
        clock: Clock | None = None,
        using: str | None = None,
        database_thread: bool = False,
        is_woken: bool = False,
    ) -> None:
        with translation.override(LANGUAGE):
            problem = problem_with_lease()
        if problem:  # Celery's workers start even if checks fail.
            raise ImproperlyConfigured(problem)
        self._using = using or router.db_for_write(Delivery)
        self._clock = clock or DatabaseClock(self._using)
        self._transport = transport or configured_transport()
        self._database_thread = database_thread
        self._timeout_seconds = settings.TIMEOUT_SECONDS
        self._agent = user_agent()
        self._reported = Once()
        self._spans = delivery_spans()
        self._worker = DeliveryWorker(
            using=self._using,
            clock=self._clock,
            window=min(settings.MAX_IN_FLIGHT, self._transport.capacity),
            is_woken=is_woken,
            spans=self._spans,
        )

    @property
    def in_flight(self) -> int:
        """The number of claimed deliveries without a recorded result."""
        return self._worker.in_flight

    @property
    def transport_name(self) -> str:
        return self._transport.name

    def wake(self) -> None:
        """Query for due deliveries now. Thread-safe."""
        self._worker.wake()
        self._transport.wake()

    def stop(self) -> None:
        """Stop claiming. ``run`` returns when the requests in flight have ended and are recorded. Thread-safe."""
        self._worker.stop()
        self._transport.wake()

    def run(self) -> None:
        """Deliver until ``stop`` is called."""
        self._run(lambda worker: False)

    def run_until_idle(self, *, await_retries: bool = True) -> None:
        """Deliver until nothing is due or in flight. With ``await_retries``, also send all retries."""
        self._run(lambda worker: worker.found_nothing and not (await_retries and worker.has_retries()))

    def _run(self, is_done: Callable[[DeliveryWorker], bool]) -> None:
        try:
            if self._database_thread:
                self._run_beside(WorkerThreads(self._worker, is_done, self._transport.wake))
            else:
                self._run_alone(is_done)
        finally:
            self._transport.close()

    def _run_alone(self, is_done: Callable[[DeliveryWorker], bool]) -> None:
        while True:
            self._worker.turn(is_done)
            self._start_claimed()
            if self._worker.is_over:
                return
            self._send(self._worker.pause_seconds())

    def _run_beside(self, threads: WorkerThreads) -> None:
        with threads, rare_collections:
            while not self._worker.is_over:
                self._start_claimed()
                self._send(WAIT_SECONDS)

    def _send(self, seconds: float) -> None:
        exchanges = self._transport.wait(0 if self._worker.has_claims else seconds)
        if exchanges:
            seen_at = self._clock.latest()
            sent = [exchange for exchange in exchanges if not exchange.postponed_seconds]
            self._worker.put([self._finished(exchange, seen_at) for exchange in sent])
            self._postpone([exchange for exchange in exchanges if exchange.postponed_seconds])

    def _finished(self, exchange: Exchange, seen_at: datetime) -> Finished:
        sending: Sending = exchange.request.context
        try:
            finished = finish(exchange, seen_at=seen_at)
        except Exception as error:  # noqa: BLE001 - a result that cannot be judged must not stop the others
            self._report(sending.claim, error)
            finished = finish_unsent(sending.claim, error, seen_at)
        if self._spans:
            self._spans.ended(sending, finished)
        return finished

    def _postpone(self, exchanges: Sequence[Exchange]) -> None:
        now = self._clock()
        for exchange in exchanges:
            due_at = now + timedelta(seconds=exchange.postponed_seconds)
            self._worker.postpone(exchange.request.context.claim, due_at)
            if self._spans:
                self._spans.postponed(exchange.request.context)

    def _report(self, claim: Claim, error: Exception) -> None:
        """Log an error with level ERROR once per webhook, then with DEBUG: all its deliveries may have the same one."""
        webhook_id = claim.webhook_id
        level = logging.ERROR if self._reported.is_first(webhook_id) else logging.DEBUG
        text = "Delivery %s to webhook %s could not be sent or judged: %s."
        logger.log(level, text, claim.delivery_id, webhook_id, kind_of(error), extra={"webhook_id": webhook_id})

    def _start_claimed(self) -> None:
        for claim in islice(self._worker.take(), STARTS_AT_A_TIME):
            now, sending = self._clock(), None
            try:
                request = request_for(claim, now=now, timeout_seconds=self._timeout_seconds, agent=self._agent)
                if self._spans:
                    request = self._spans.started(request)
                    sending = request.context
                self._transport.start(request)
            except UNSIGNABLE as error:  # Another worker may have the key, or the scheme.
                self._worker.hold_unsigned(claim, error)
            except Exception as error:  # noqa: BLE001 - an invalid delivery must not stop the others
                self._report(claim, error)
                finished = finish_unsent(claim, error, self._clock.latest())
                if self._spans and sending:
                    self._spans.ended(sending, finished)
                elif self._spans:
                    self._spans.unsent([finished])
                self._worker.put([finished])


class RareCollections:
    """A context manager that exempts all existing objects from garbage collections, and makes those of new ones rare.

    A collection stops every thread for about 70 ms to visit all objects. Engines of the same process share the
    thresholds, so the first one changes them and the last one restores them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._before = gc.get_threshold()
            gc.freeze()
            if self._before[0]:  # 0 disables the collector
                gc.set_threshold(max(NEW_OBJECTS, self._before[0]), *self._before[1:])

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                gc.set_threshold(*self._before)
                gc.unfreeze()


rare_collections = RareCollections()
