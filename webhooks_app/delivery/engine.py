"""The loop that delivers: take what was claimed, send it side by side, give back what became of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import islice

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router

from ..conf import problem_with_lease, settings
from ..egress import configured_transport
from ..models import Delivery
from ..models.delivery import configured_schedule
from ..transport import BaseTransport
from .clock import Clock, DatabaseClock
from .desk import Desk
from .sending import finish, finish_unsent, request_for

logger = logging.getLogger("webhooks_app.delivery")

STARTS_AT_A_TIME = 64
"""Requests that are begun before answers are looked for, so that results flow back while a batch goes out."""

WAIT_SECONDS = 60.0
"""For how long the engine's thread sleeps at most; the desk's thread wakes it as soon as there is something to send."""


class Engine:
    """Delivers what is due through one transport. Only ``wake`` and ``stop`` are for other threads.

    With ``database_thread`` the database is asked in a thread of its own, so that neither it nor the receivers wait for
    each other; without, everything happens in the caller's thread, on its connection and within its transaction.
    """

    def __init__(
        self,
        *,
        transport: BaseTransport | None = None,
        clock: Clock | None = None,
        using: str | None = None,
        database_thread: bool = False,
    ) -> None:
        if problem := problem_with_lease():  # Celery's workers start in spite of what the checks say.
            raise ImproperlyConfigured(problem)
        self._using = using or router.db_for_write(Delivery)
        self._clock = clock or DatabaseClock(self._using)
        self._transport = transport or configured_transport()
        self._database_thread = database_thread
        self._timeout_seconds = settings.TIMEOUT_SECONDS
        self._schedule = configured_schedule()
        self._desk = Desk(
            using=self._using, clock=self._clock, window=min(settings.MAX_IN_FLIGHT, self._transport.capacity)
        )

    @property
    def in_flight(self) -> int:
        """How many deliveries it has claimed and not yet recorded."""
        return self._desk.in_flight

    @property
    def transport_name(self) -> str:
        return self._transport.name

    def wake(self) -> None:
        """Look for due deliveries now. Thread-safe."""
        self._desk.wake()
        self._transport.wake()

    def stop(self) -> None:
        """Claim nothing more; ``run`` returns when what is in flight has ended and is recorded. Thread-safe."""
        self._desk.stop()
        self._transport.wake()

    def run(self) -> None:
        """Deliver until ``stop`` is called."""
        self._run(lambda desk: False)

    def run_until_idle(self, *, await_retries: bool = True) -> None:
        """Deliver until nothing is due or in flight, nor, if they are awaited, any retry still to be made."""
        self._run(lambda desk: desk.found_nothing and not (await_retries and desk.has_retries()))

    def _run(self, is_done: Callable[[Desk], bool]) -> None:
        try:
            if self._database_thread:
                self._run_beside(DeskThread(self._desk, is_done, self._transport.wake))
            else:
                self._run_alone(is_done)
        finally:
            self._transport.close()

    def _run_alone(self, is_done: Callable[[Desk], bool]) -> None:
        while True:
            self._desk.turn(is_done)
            self._start_claimed()
            if self._desk.is_over:
                return
            self._send(self._desk.pause_seconds())

    def _run_beside(self, thread: DeskThread) -> None:
        with thread:
            while not self._desk.is_over and thread.is_alive():
                self._start_claimed()
                self._send(WAIT_SECONDS)

    def _send(self, seconds: float) -> None:
        exchanges = self._transport.wait(0 if self._desk.has_claims else seconds)
        if exchanges:
            seen_at = self._clock.latest()
            self._desk.put([finish(exchange, self._schedule, seen_at=seen_at) for exchange in exchanges])

    def _start_claimed(self) -> None:
        for claim in islice(self._desk.take(), STARTS_AT_A_TIME):
            now = self._clock()
            try:
                request = request_for(claim, now=now, timeout_seconds=self._timeout_seconds)
            except Exception as error:  # One delivery that cannot be prepared may not stop the others.
                logger.exception("Delivery %s could not be prepared.", claim.delivery_id)
                self._desk.put([finish_unsent(claim, error, self._clock.latest(), self._schedule)])
            else:
                self._transport.start(request)


class DeskThread:
    """Runs a desk beside the engine, within a ``with`` block; what it fails of is raised at the end of the block."""

    def __init__(self, desk: Desk, is_done: Callable[[Desk], bool], notify: Callable[[], None]) -> None:
        self._desk = desk
        self._is_done = is_done
        self._notify = notify
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="webhooks_app.desk", daemon=True)
        self.is_alive = self._thread.is_alive

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._desk.is_over = True
        self._desk.changed.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        desk = self._desk
        try:
            while not desk.is_over:
                desk.changed.clear()
                desk.turn(self._is_done)
                if desk.has_claims or desk.is_over:
                    self._notify()
                desk.changed.wait(desk.pause_seconds())
        except BaseException as error:  # noqa: BLE001 - whatever it was, the engine's thread reports it.
            self._error = error
        finally:
            connections.close_all()
            self._notify()
