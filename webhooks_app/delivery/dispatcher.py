"""The engine's side towards the database: it claims what is due while there is room, and records what is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from django.db import DatabaseError, InterfaceError, connections

from ..conf import settings
from ..database.clock import Clock
from .claim import Claim, Finished
from .claiming import Claimer
from .outage import FIRST_BACKOFF_SECONDS, Outage
from .recorder import Recorder

logger = logging.getLogger("webhooks_app.delivery")

STOP_GRACE_SECONDS = 10.0

CLAIMS, RESULTS = "claims", "results"
"""The two sides that ask the database. While results cannot be written, as on a full disk, nothing is claimed."""


class Dispatcher:
    """Hands out claims and takes back their results.

    ``turn`` does both in turn; ``claim_turn`` and ``record_turn`` are for a thread each, with a connection of its own,
    so that neither waits for the other. Everything else may be called from any thread.
    """

    def __init__(self, *, using: str, clock: Clock, window: int, is_woken: bool = False) -> None:
        self._clock = clock
        self.outage = Outage(clock, using)
        self.claimer = Claimer(
            using=using, clock=clock, window=window, outage=self.outage, is_woken=is_woken, put_lost=self.put
        )
        self.recorder = Recorder(
            using=using,
            clock=clock,
            window=window,
            in_flight=lambda: self.in_flight,
            on_recorded=self.claimer.recorded,
        )
        self.results_changed = threading.Event()
        """Set when there may be something to record before the pause is over."""
        self._stopping = threading.Event()
        self._stop_by = 0.0
        self._over = threading.Event()

    @property
    def in_flight(self) -> int:
        """How many claims are neither recorded nor given back."""
        return len(self.claimer.slots)

    @property
    def has_claims(self) -> bool:
        """Whether something can be taken."""
        return self.claimer.has_claims

    @property
    def found_nothing(self) -> bool:
        """Whether the last look found nothing that is due, and nothing was recorded since."""
        return self.claimer.found_nothing

    @property
    def is_over(self) -> bool:
        """Whether it was stopped, or its work is done, and every result is recorded; or it was ended."""
        return self._over.is_set()

    def wake(self) -> None:
        """Look for due deliveries now."""
        self.claimer.polls.wake()
        self.claimer.changed.set()

    def stop(self) -> None:
        """Claim nothing more; it is over when the results of what was taken are recorded."""
        self._stop_by = self._clock.monotonic() + settings.TIMEOUT_SECONDS + STOP_GRACE_SECONDS
        self._stopping.set()
        self._wake_threads()

    def end(self) -> None:
        """Be over now, whatever is left: leases bring it back."""
        self._over.set()
        self._wake_threads()

    def take(self) -> Iterator[Claim]:
        """Yield the claims that were not taken yet, except those that have waited too long to be sent now."""
        return self.claimer.take()

    def put(self, finished: Sequence[Finished]) -> None:
        """Take results, to be recorded together with what follows shortly."""
        if self.recorder.put(finished):
            self.results_changed.set()

    def has_retries(self) -> bool:
        """Return True if a retry is to be made, those that an earlier process left included."""
        return self.claimer.has_retries()

    def turn(self, is_done: Callable[[Dispatcher], bool]) -> None:
        """Record, then claim. With nothing outstanding, ``is_done`` returns whether to end."""
        self.record_turn()
        self.claim_turn(is_done)

    def record_turn(self) -> None:
        self._ask(RESULTS, self.recorder.turn)

    def claim_turn(self, is_done: Callable[[Dispatcher], bool]) -> None:
        self._ask(CLAIMS, lambda: self._claim(is_done))
        if self._stopping.is_set() and self._is_out_of_time():
            self.end()

    def pause_seconds(self) -> float:
        """Return the seconds until the next turn is due, unless ``wake``, ``stop`` or ``put`` is called."""
        if not self.outage.may_ask:
            return self.outage.seconds_to_ask()
        # With nothing in flight there is nothing to lose; the heartbeat is renewed before the next claim.
        seconds = self.seconds_to_claim() if self.in_flight else self._claimer_pause_seconds()
        return min(seconds, self.seconds_to_record())

    def seconds_to_claim(self) -> float:
        if not self.outage.may_ask:
            return self.outage.seconds_to_ask()
        return min(self._claimer_pause_seconds(), self.claimer.seconds_to_show_life())

    def seconds_to_record(self) -> float:
        if not self.outage.may_ask:
            return self.outage.seconds_to_ask()
        seconds = self.recorder.pause_seconds()
        return settings.SWEEP_SECONDS if seconds is None else seconds

    def _claim(self, is_done: Callable[[Dispatcher], bool]) -> bool:
        may_claim = not self.outage.has_failed(RESULTS)
        has_asked = self.claimer.turn(is_stopping=self._stopping.is_set(), may_claim=may_claim)
        if self.in_flight or not self.recorder.is_idle:
            return has_asked
        if self._stopping.is_set() or is_done(self):
            self.claimer.end()
            self.recorder.end()
            self.end()
        return has_asked

    def _claimer_pause_seconds(self) -> float:
        seconds = self.claimer.pause_seconds(is_stopping=self._stopping.is_set())
        return max(seconds, FIRST_BACKOFF_SECONDS) if self.outage.has_failed(RESULTS) else seconds

    def _ask(self, side: str, turn: Callable[[], bool]) -> None:
        """Do what asks the database, unless it is away."""
        if not self.outage.may_ask:
            return
        try:
            if turn():
                self.outage.ended(side)
        except (DatabaseError, InterfaceError) as error:
            self.outage.began(error, side)
            self.claimer.polls.wake()  # a notification may have been lost

    def _is_out_of_time(self) -> bool:
        if self._clock.monotonic() <= self._stop_by:
            return False
        logger.error("Stopped with %d results not recorded; their leases will end.", self.in_flight)
        return True

    def _wake_threads(self) -> None:
        self.claimer.changed.set()
        self.results_changed.set()


class DispatcherThreads:
    """Runs a dispatcher in two threads within a ``with`` block; an error in one is raised at the end of the block."""

    def __init__(
        self, dispatcher: Dispatcher, is_done: Callable[[Dispatcher], bool], notify: Callable[[], None]
    ) -> None:
        self._dispatcher = dispatcher
        self._is_done = is_done
        self._notify = notify
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(loop,), name=f"webhooks_app.{name}", daemon=True)
            for name, loop in (("claims", self._claim), ("results", self._record))
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *exception: object) -> None:
        self._dispatcher.end()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the engine's thread reports it.
            self._errors.append(error)
        finally:
            connections.close_all()
            self._dispatcher.end()
            self._notify()

    def _claim(self) -> None:
        dispatcher = self._dispatcher
        while not dispatcher.is_over:
            dispatcher.claimer.changed.clear()
            dispatcher.claim_turn(self._is_done)
            if dispatcher.has_claims or dispatcher.is_over:
                self._notify()
            if not dispatcher.is_over:
                dispatcher.claimer.changed.wait(dispatcher.seconds_to_claim())

    def _record(self) -> None:
        dispatcher = self._dispatcher
        while not dispatcher.is_over:
            dispatcher.results_changed.clear()
            dispatcher.record_turn()
            if not dispatcher.is_over:
                dispatcher.results_changed.wait(dispatcher.seconds_to_record())
