"""The database side of the engine: it claims due deliveries and records results."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, connections

from ..conf import settings
from ..database.clock import Clock
from ..database.dialects import dialect_of
from ..database.sql import is_deadlock
from .claim import Claim, Finished
from .claiming import Claimer, Turn
from .outage import FIRST_BACKOFF_SECONDS, Outage
from .recording import Recorder
from .schedule import Schedule

logger = logging.getLogger("webhooks_app.delivery")

STOP_GRACE_SECONDS = 10.0

COLLECT_SECONDS = 0.02
"""How long a claim waits at most while results are written, and results while a claim is written."""

PAUSE_SECONDS_EACH = 0.00015
"""How long the next claim waits for each delivery that was claimed."""
PAUSE_SECONDS = 0.01
"""How long it waits at most."""

PAUSE_AFTER_DEADLOCK_SECONDS = 0.02
"""How long the victim of a deadlock waits before it repeats its transaction. PostgreSQL gives a free row to the first
that asks, so without a pause it may take the row before the other transaction is awake, and be the victim again."""

CLAIMS, RESULTS = "claims", "results"
"""The two users of the database. While results cannot be written, for example on a full disk, nothing is claimed."""


class Dispatcher:
    """Claim deliveries and record their results.

    ``turn`` does one after the other. ``claim_turn`` and ``record_turn`` are for separate threads, each with a
    connection of its own. All other methods are thread-safe.
    """

    def __init__(self, *, using: str, clock: Clock, window: int, is_woken: bool = False) -> None:
        self._using = using
        self.has_single_writer = dialect_of(using).has_single_writer
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
        """Set if there may be something to record before the end of the pause."""
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._stop_by = 0.0
        self._over = threading.Event()

    @property
    def in_flight(self) -> int:
        """The number of claims that are neither recorded nor released."""
        return len(self.claimer.slots)

    @property
    def has_claims(self) -> bool:
        """Whether ``take`` would yield a claim."""
        return self.claimer.has_claims

    @property
    def found_nothing(self) -> bool:
        """Whether the last query found nothing due, and no result has been recorded since."""
        return self.claimer.found_nothing

    @property
    def is_over(self) -> bool:
        """Whether the dispatcher has ended: stopped or done, with every result recorded, or by ``end``."""
        return self._over.is_set()

    def wake(self) -> None:
        """Query for due deliveries now."""
        self.claimer.tell(Schedule.woken)
        self.claimer.changed.set()

    def stop(self) -> None:
        """Stop claiming. The dispatcher ends after recording the results of all claims."""
        self._stop_by = self._clock.monotonic() + settings.TIMEOUT_SECONDS + STOP_GRACE_SECONDS
        self._stopping.set()
        self._wake_threads()

    def end(self) -> None:
        """End immediately. Remaining claims return at the end of their leases."""
        self._over.set()
        self._wake_threads()

    def take(self) -> Iterator[Claim]:
        """Yield new claims, except those that have waited too long to be sent."""
        return self.claimer.take()

    def put(self, finished: Sequence[Finished]) -> None:
        """Add results to the next batch to record."""
        if self.recorder.put(finished):
            self.results_changed.set()

    @contextmanager
    def turn_to_write(self, *, waits: bool = True) -> Iterator[None]:
        """Wait for the end of the other thread's turn, within limits, or do not wait.

        Deliveries that become due meanwhile are claimed together, and results that arrive are recorded together. The
        batches therefore grow with the load.
        """
        has_turn = self._writing.acquire(timeout=COLLECT_SECONDS if waits else 0)
        try:
            yield
        finally:
            if has_turn:
                self._writing.release()

    def pause_after_claim(self, turn: Turn) -> None:
        """Let deliveries become due for a moment that is longer after a larger claim.

        Claims therefore grow while more than about 6,600 deliveries become due per second, up to what becomes due in
        ``PAUSE_SECONDS``, and shrink below that. A single event hardly waits for the one before it. After a claim that
        reached its limit there is no such pause, because a longer one would not make the next claim larger; the times
        of looks still apply.
        """
        if turn.claimed and not turn.is_full:
            self._over.wait(min(PAUSE_SECONDS, PAUSE_SECONDS_EACH * turn.claimed))

    def has_retries(self) -> bool:
        """Return True if retries are pending, including those of earlier processes."""
        return self.claimer.has_retries()

    def turn(self, is_done: Callable[[Dispatcher], bool]) -> None:
        """Record, then claim. ``is_done`` decides about the end when nothing is outstanding."""
        self.record_turn()
        self.claim_turn(is_done)

    def record_turn(self) -> None:
        self._ask(RESULTS, lambda: Turn(self.recorder.turn()))

    def claim_turn(self, is_done: Callable[[Dispatcher], bool]) -> Turn:
        turn = self._ask(CLAIMS, lambda: self._claim(is_done))
        if self._stopping.is_set() and self._is_out_of_time():
            self.end()
        return turn

    def pause_seconds(self) -> float:
        """Return the seconds until the next turn, unless ``wake``, ``stop`` or ``put`` is called."""
        if not self.outage.may_ask:
            return self.outage.seconds_to_ask()
        # With nothing in flight, the heartbeat can wait until the next claim.
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

    def _claim(self, is_done: Callable[[Dispatcher], bool]) -> Turn:
        may_claim = not self.outage.has_failed(RESULTS)
        turn = self.claimer.turn(is_stopping=self._stopping.is_set(), may_claim=may_claim)
        if self.in_flight or not self.recorder.is_idle:
            return turn
        if self._stopping.is_set() or is_done(self):
            self.claimer.end()
            self.recorder.end()
            self.end()
        return turn

    def _claimer_pause_seconds(self) -> float:
        seconds = self.claimer.pause_seconds(is_stopping=self._stopping.is_set())
        return max(seconds, FIRST_BACKOFF_SECONDS) if self.outage.has_failed(RESULTS) else seconds

    def _ask(self, side: str, turn: Callable[[], Turn]) -> Turn:
        """Run a turn that uses the database, unless the database is unavailable."""
        if not self.outage.may_ask:
            return Turn()
        try:
            made = self._repeated_after_deadlock(turn)
        except (DatabaseError, InterfaceError) as error:
            self.outage.began(error, side)
            self.claimer.tell(Schedule.woken)  # a notification may have been lost
            return Turn()
        if made.has_asked:
            self.outage.ended(side)
        return made

    def _repeated_after_deadlock(self, turn: Callable[[], Turn]) -> Turn:
        """Run a turn, and repeat it after a short pause if the database ended it because of a deadlock."""
        try:
            return turn()
        except DatabaseError as error:
            if not is_deadlock(self._using, error):
                raise
            logger.info("Repeating a transaction after a deadlock.")
            self.claimer.tell(Schedule.woken)
            self._stopping.wait(PAUSE_AFTER_DEADLOCK_SECONDS)
            return turn()

    def _is_out_of_time(self) -> bool:
        if self._clock.monotonic() <= self._stop_by:
            return False
        logger.error("Stopped before %d results were recorded. Their leases will end.", self.in_flight)
        return True

    def _wake_threads(self) -> None:
        self.claimer.changed.set()
        self.results_changed.set()


class DispatcherThreads:
    """A context manager that runs a dispatcher in two threads. It raises their first exception at its end."""

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
        except BaseException as error:  # noqa: BLE001 - raised again in the engine's thread
            self._errors.append(error)
        finally:
            connections.close_all()
            self._dispatcher.end()
            self._notify()

    def _claim(self) -> None:
        dispatcher = self._dispatcher
        while not dispatcher.is_over:
            # At light load, waiting for a slow commit of results would delay an event, and save little.
            with dispatcher.turn_to_write(waits=dispatcher.has_single_writer or not dispatcher.recorder.is_light):
                dispatcher.claimer.changed.clear()
                turn = dispatcher.claim_turn(self._is_done)
            if dispatcher.has_claims or dispatcher.is_over:
                self._notify()
            dispatcher.pause_after_claim(turn)
            if not dispatcher.is_over:
                dispatcher.claimer.changed.wait(dispatcher.seconds_to_claim())

    def _record(self) -> None:
        dispatcher = self._dispatcher
        while not dispatcher.is_over:
            with dispatcher.turn_to_write():
                dispatcher.results_changed.clear()
                dispatcher.record_turn()
            if not dispatcher.is_over:
                dispatcher.results_changed.wait(dispatcher.seconds_to_record())
