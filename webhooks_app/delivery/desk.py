"""The engine's side towards the database: it claims what is due while there is room, and records what is over."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, connections

from ..conf import settings
from ..models.delivery import configured_schedule
from .agenda import LINGER_SECONDS, Agenda
from .announcing import announce
from .bell import Bell
from .caps import Caps
from .claim import Claim, Finished
from .clock import Clock
from .log_records import log_attempts
from .queue import Queue
from .recording import record
from .sending import finish_all_lost

logger = logging.getLogger("webhooks_app.delivery")

RECORD_WITHIN_SECONDS = 0.02
"""How long a result may wait for others to be written with it; the promise is 50 ms."""

STOP_GRACE_SECONDS = 10.0


class Desk:
    """Hands out claims and takes back what became of them.

    ``turn`` and ``pause_seconds`` are for the thread that has the database connection; everything else may be called
    from another. What two threads use are deques and events, so that nothing needs a lock.
    """

    def __init__(self, *, using: str, clock: Clock, window: int) -> None:
        self._using = using
        self._clock = clock
        self._window = window
        self._batch_size = settings.BATCH_SIZE
        self._sweep_seconds = settings.SWEEP_SECONDS
        self._timeout_seconds = settings.TIMEOUT_SECONDS
        self._schedule = configured_schedule()
        self._agenda = Agenda(clock, sweep_seconds=self._sweep_seconds)
        self._caps = Caps(clock=clock, window=window, configured=settings.MAX_IN_FLIGHT_PER_WEBHOOK)
        self._queue = Queue(
            using=using,
            clock=clock,
            lease=timedelta(seconds=settings.LEASE_SECONDS),
            cap=self._caps.of,
        )
        # Half of what a lease has beyond the timeout is for beginning, the other half for recording.
        self._begin_within_seconds = (settings.LEASE_SECONDS - settings.TIMEOUT_SECONDS) / 2
        self._claimed: deque[tuple[Claim, float]] = deque()
        self._too_old: deque[Claim] = deque()
        self._to_release: list[Claim] = []
        self._arrived: deque[Finished] = deque()
        self._to_record: list[Finished] = []
        self._record_at = 0.0
        self._wake_at = 1
        self._look_again_at: datetime | None = None
        self._handed_out: set[tuple[str, int]] = set()
        self._found_nothing = False
        self._stopping = threading.Event()
        self._stop_by = 0.0
        self.is_over = False
        """Whether it was stopped, or its work is done, and nothing that it has handed out is missing."""
        self.changed = Bell(using, self._agenda.look_soon_and_after)
        """Set when there may be something to do before the pause is over."""

    def wake(self) -> None:
        """Look for due deliveries now."""
        self._agenda.wake()
        self.changed.set()

    def stop(self) -> None:
        """Claim nothing more; the desk is over when what it has handed out is recorded."""
        self._stop_by = self._clock.monotonic() + self._timeout_seconds + STOP_GRACE_SECONDS
        self._stopping.set()
        self.changed.set()

    def take(self) -> Iterator[Claim]:
        """Yield the claims that were not handed out yet, those excepted that waited too long to be sent now."""
        while True:
            try:
                claim, begin_by = self._claimed.popleft()
            except IndexError:
                return
            if self._clock.monotonic() < begin_by:
                yield claim
            else:
                self._too_old.append(claim)
                self.changed.set()

    def put(self, finished: Sequence[Finished]) -> None:
        """Take what is over, to be recorded together with what follows shortly."""
        self._arrived.extend(finished)
        if len(self._arrived) >= self._wake_at:
            self.changed.set()

    def turn(self, is_done: Callable[[Desk], bool]) -> None:
        """Do what is to be done now: record, then claim. With nothing outstanding, ``is_done`` says whether to end."""
        self._collect()
        if self._agenda.may_ask_database:
            try:
                self._ask_database()
                is_finished = not self._handed_out and (self._stopping.is_set() or is_done(self))
                self.is_over = self.is_over or is_finished  # It may have been ended meanwhile, from outside.
            except (DatabaseError, InterfaceError) as error:
                self._wait_for_database(error)
        self.is_over = self.is_over or (self._stopping.is_set() and self._is_out_of_time())
        self._wake_at = max(1, self._enough - len(self._to_record)) if self._to_record else 1

    def pause_seconds(self) -> float:
        """Return for how long nothing but a call of ``wake``, ``stop`` or ``put`` can give the desk something to do."""
        if not self._agenda.may_ask_database:
            return self._agenda.seconds_to_ask()
        if self._too_old or len(self._arrived) >= self._wake_at:  # put while the last turn was under way
            return 0.0
        seconds = self._sweep_seconds
        if self._to_record:
            seconds = min(seconds, self._record_at - self._clock.monotonic())
        if self._has_room():
            seconds = min(seconds, self._agenda.seconds_to_look())
        return max(0.0, seconds)

    @property
    def in_flight(self) -> int:
        """How many claims are neither recorded nor given back."""
        return len(self._handed_out)

    @property
    def has_claims(self) -> bool:
        """Whether something waits to be taken."""
        return bool(self._claimed)

    @property
    def found_nothing(self) -> bool:
        """Whether the last look found nothing that is due, and nothing was recorded since."""
        return self._found_nothing

    def has_retries(self) -> bool:
        """Tell whether a retry is to be made, those that an earlier process left included."""
        if not self._agenda.expects_work:
            next_due_at = self._queue.next_due_at()
            if next_due_at is not None:
                # What is overdue is waiting for another worker: for a webhook that it holds, or whose cap it fills.
                soon = self._clock() + timedelta(seconds=LINGER_SECONDS)
                self._agenda.look_at(next_due_at if next_due_at > self._clock() else soon)
        return self._agenda.expects_work

    @property
    def _enough(self) -> int:
        """How many results are written without waiting for more: half of what is out, so that the rest goes on."""
        return min(self._batch_size, max(1, len(self._handed_out) // 2))

    def _collect(self) -> None:
        if self._arrived and not self._to_record:
            self._record_at = self._clock.monotonic() + RECORD_WITHIN_SECONDS
        for _ in range(len(self._arrived)):
            self._to_record.append(self._arrived.popleft())

    def _ask_database(self) -> None:
        recorded = self._should_record()
        if recorded:
            self._record()
        if self._stopping.is_set():
            self._to_release.extend(self.take())
        for _ in range(len(self._too_old)):
            self._to_release.append(self._too_old.popleft())
        if self._to_release:
            self._release()
        looked = self._has_room() and self._agenda.is_look_due()
        if looked:
            self._claim()
        if self._agenda.is_backing_off and (recorded or looked):
            logger.info("The database is back.")
            self._agenda.database_answered()

    def _has_room(self) -> bool:
        return not self._stopping.is_set() and len(self._handed_out) < self._window

    def _claim(self) -> None:
        began_at = self._clock.monotonic()
        room = min(self._window - len(self._handed_out), self._batch_size)
        claims = self._queue.claim(room, with_lost=self._agenda.may_take_lost)
        self._found_nothing = not claims and not self._queue.due_soon
        self._agenda.looked(found=bool(claims), took_seconds=self._clock.monotonic() - began_at)
        if self._queue.look_again_at not in (None, self._look_again_at):
            self._look_again_at = self._queue.look_again_at
            self._agenda.look_at(self._look_again_at)
        now = self._clock.latest()
        lost = []
        for claim in claims:
            if not claim.is_lost:
                self._claimed.append((claim, began_at + self._begin_within_seconds))
            elif claim.key not in self._handed_out:
                lost.append(claim)
            else:
                continue  # It is not lost but still out: the clock jumped, or the database was away for a lease.
            self._handed_out.add(claim.key)
        self._arrived.extend(finish_all_lost(lost, now, self._schedule))

    def _release(self) -> None:
        self._queue.release(self._to_release)
        self._forget(self._to_release)
        self._to_release = []

    def _should_record(self) -> bool:
        if not self._to_record:
            return False
        return len(self._to_record) >= self._enough or self._clock.monotonic() >= self._record_at

    def _record(self) -> None:
        finished = self._to_record
        valid = record(self._using, finished, self._clock())
        self._forget([item.claim for item in finished])
        self._to_record = []
        self._found_nothing = False
        self._caps.note(finished)
        self._agenda.look_soon()
        # Of all, because what is not valid now may have been written before, by a commit that was not acknowledged.
        for item in finished:
            if item.step.next_attempt_at is not None:
                self._agenda.look_at(item.step.next_attempt_at)
        log_attempts(valid)
        announce(valid)

    def _forget(self, claims: Iterable[Claim]) -> None:
        self._handed_out.difference_update(claim.key for claim in claims)

    def _is_out_of_time(self) -> bool:
        if self._clock.monotonic() <= self._stop_by:
            return False
        logger.error("Stopped with %d results not recorded; their leases will end.", len(self._handed_out))
        return True

    def _wait_for_database(self, error: Exception) -> None:
        if not self._agenda.is_backing_off:
            logger.warning("Waiting for the database: %s", " ".join(str(error).split()))
        self._agenda.database_failed()
        connections[self._using].close()
