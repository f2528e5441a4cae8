"""A worker: its threads, and all that they wait for.

Three threads share the work, or one does it all. The **engine's** sends what ``take`` yields, and passes results to
``put``. The **claiming** one looks for due deliveries when the schedule says so, and hands over its claims. The
**recording** one writes results in batches. These two take turns, so that the batches of one grow during the work of
the other.

- *Pauses.* The claiming thread waits for the schedule's next look, for a heartbeat, or until ``changed`` is set: by a
  commit, by a recorded result, by a claim that comes back. The recording thread waits for its batch.
- *Outages.* After a failure of the database, nobody asks it before the end of a growing pause. While results cannot be
  written, for example on a full disk, nothing is claimed. A transaction that a deadlock ended is repeated.
- *Heartbeats.* Before a claim and every second, the claiming thread shows that this worker lives. Without a recent
  heartbeat, ``take`` yields nothing, because other workers may have ended its claims. In return, it ends those of the
  dead.
- *The end.* A stopping worker returns what is not sent, waits for the results in flight within limits, and wakes others
  for the deliveries that it has made due. A worker until idle ends once nothing is in flight, every result is recorded
  and told to the schedule, and the last look has found nothing that is due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError, connections

from ..conf import settings
from ..database.clock import Clock
from ..database.dialects import dialect_of
from ..database.sql import is_deadlock
from ..once import Once
from ..signals import announce_deliveries
from .claim import Claim, Finished
from .listening import ScheduleEvent, commit_event
from .liveness import FIRST_BACKOFF_SECONDS, DeadWorkers, Liveness, Outage
from .queue import Queue
from .recording import Recorder
from .schedule import LINGER_SECONDS, Look, Now, Schedule
from .sending import finish_all_lost
from .slots import Slots, usual_cap
from .spans import DeliverySpans
from .sql import sql_for

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
"""The two users of the database."""


class Turn(NamedTuple):
    """What a turn did."""

    has_asked: bool = False
    """Whether the database was queried."""
    claimed: int = 0
    """The number of claims, without lost ones."""
    is_full: bool = False
    """See ``Found.is_full``."""


class Returned(NamedTuple):
    """A claim that comes back unsent."""

    claim: Claim
    due_at: datetime | None = None
    """When to try it again, or None for now."""
    is_unsigned: bool = False
    """Whether this worker cannot sign for its webhook."""


class DeliveryWorker:
    """Claim deliveries and record their results.

    ``turn`` does one after the other. ``claim_turn`` and ``record_turn`` are for separate threads, each with a
    connection of its own. All other methods are thread-safe.
    """

    def __init__(
        self,
        *,
        using: str,
        clock: Clock,
        window: int,
        is_woken: bool = False,
        spans: DeliverySpans | None = None,
    ) -> None:
        self._using = using
        self._spans = spans
        self._clock = clock
        self._window = window
        self._batch_size = settings.BATCH_SIZE
        # Half of the time between timeout and lease is for starting the request, the other half for recording.
        self._begin_within_seconds = (settings.LEASE_SECONDS - settings.TIMEOUT_SECONDS) / 2
        self.has_single_writer = dialect_of(using).has_single_writer
        self.slots = Slots(
            window=window,
            cap=usual_cap(window, settings.MAX_IN_FLIGHT_PER_WEBHOOK),
            slow_apart=sql_for(using).slow_claims_apart,
        )
        self.queue = Queue(using=using, lease=timedelta(seconds=settings.LEASE_SECONDS), slots=self.slots)
        self.outage = Outage(clock, using)
        number = self.queue.worker
        self._liveness = Liveness(using=using, clock=clock, worker=number, on_missing=self._return_claimed)
        self._dead_workers = DeadWorkers(using=using, clock=clock, outage=self.outage, worker=number)
        self.recorder = Recorder(
            using=using,
            clock=clock,
            window=window,
            in_flight=lambda: self.in_flight,
            on_recorded=self._recorded,
            wake=lambda: self.changed.set(),  # noqa: PLW0108 - made below
        )
        self._reported = Once()
        # The retries of workers that have ended are found in the database.
        self._schedule = Schedule(sweep_seconds=settings.SWEEP_SECONDS, has_later_moments=True)
        self._now: Now | None = None
        """The time of the last claiming turn."""
        self._events: deque[ScheduleEvent] = deque()
        """What happened since. All threads add to it; the claiming one applies it."""
        self._claimed: deque[tuple[Claim, float]] = deque()
        """Claims to send, each with the time until which its request must begin (monotonic)."""
        self._returned: deque[Returned] = deque()
        self.changed = commit_event(using, self.tell, is_woken=is_woken)
        """Set if there may be something to claim, release or show before the end of the pause."""
        self.results_changed = threading.Event()
        """Set if there may be something to record before the end of the pause."""
        self._stop_by = float("inf")
        """When a stopping worker ends at the latest (monotonic)."""
        self._over = threading.Event()

    # For the engine's thread.

    @property
    def in_flight(self) -> int:
        """The number of claims that are neither recorded nor released."""
        return len(self.slots)

    @property
    def has_claims(self) -> bool:
        """Whether ``take`` would yield a claim."""
        return bool(self._claimed) and self._liveness.is_current

    @property
    def is_over(self) -> bool:
        """Whether the worker has ended: stopped or done, with every result recorded, or by ``end``."""
        return self._over.is_set()

    def take(self) -> Iterator[Claim]:
        """Yield new claims, except those that have waited too long to be sent.

        Yield nothing while another worker may consider this one dead.
        """
        while self._claimed:
            now = self._clock.monotonic()
            if not self._liveness.is_current_at(now):
                self.changed.set()
                return
            try:
                claim, begin_by = self._claimed.popleft()
            except IndexError:  # the claiming thread has returned the last one
                return
            if now < begin_by:
                self.slots.begin(claim, now)
                yield claim
            else:
                self._return(claim)

    def put(self, finished: Sequence[Finished]) -> None:
        """Add results to the next batch to record."""
        if self.recorder.put(finished):
            self.results_changed.set()

    def hold_unsigned(self, claim: Claim, error: Exception) -> None:
        """Leave a claim that this worker cannot sign to others. Log one record per webhook."""
        webhook_id = claim.webhook_id
        if self._reported.is_first(webhook_id):
            text = "This worker cannot sign for webhook %s, and leaves its deliveries to others: %s"
            logger.error(text, webhook_id, error, extra={"webhook_id": webhook_id})
        self._return(claim, is_unsigned=True)

    def postpone(self, claim: Claim, due_at: datetime) -> None:
        """Release a claim until ``due_at``."""
        self._return(claim, due_at)

    def wake(self) -> None:
        """Query for due deliveries now."""
        self.tell(Schedule.woken)
        self.changed.set()

    def tell(self, event: ScheduleEvent) -> None:
        """Apply an event to the schedule before its next decision."""
        self._events.append(event)

    def stop(self) -> None:
        """Stop claiming. The worker ends after recording the results of all claims."""
        self._stop_by = self._clock.monotonic() + settings.TIMEOUT_SECONDS + STOP_GRACE_SECONDS
        self._wake_threads()

    def end(self) -> None:
        """End immediately. Remaining claims return at the end of their leases."""
        self._over.set()
        self._wake_threads()

    # Turns.

    def turn(self, is_done: Callable[[DeliveryWorker], bool]) -> None:
        """Record, then claim. ``is_done`` decides about the end when nothing is outstanding."""
        self.record_turn()
        self.claim_turn(is_done)

    def record_turn(self) -> None:
        self._ask(RESULTS, lambda: Turn(self.recorder.turn()))

    def claim_turn(self, is_done: Callable[[DeliveryWorker], bool]) -> Turn:
        turn = self._ask(CLAIMS, lambda: self._claim_or_end(is_done))
        if self._clock.monotonic() > self._stop_by:
            logger.error("Stopped before %d results were recorded. Their leases will end.", self.in_flight)
            self.end()
        return turn

    # Pauses.

    def pause_seconds(self) -> float:
        """Return the seconds until the next turn, unless ``wake``, ``stop`` or ``put`` is called."""
        if not self.outage.may_ask:
            return self.outage.seconds_to_ask()
        # With nothing in flight, the heartbeat can wait until the next claim.
        seconds = self.seconds_to_claim() if self.in_flight else self._seconds_to_look()
        return min(seconds, self.seconds_to_record())

    def seconds_to_claim(self) -> float:
        """Return the seconds until the next claiming turn, unless ``changed`` is set before."""
        if not self.outage.may_ask:
            return self.outage.seconds_to_ask()
        return min(self._seconds_to_look(), self._seconds_to_show_life())

    def seconds_to_record(self) -> float:
        """Return the seconds until the next recording turn, unless ``results_changed`` is set before."""
        return self.recorder.pause_seconds() if self.outage.may_ask else self.outage.seconds_to_ask()

    def pause_after_claim(self, turn: Turn) -> None:
        """Let deliveries become due for a moment that is longer after a larger claim.

        Claims therefore grow while more than about 6,600 deliveries become due per second, up to what becomes due in
        ``PAUSE_SECONDS``, and shrink below that. A single event hardly waits for the one before it.
        """
        if turn.claimed and not turn.is_full:
            self._over.wait(min(PAUSE_SECONDS, PAUSE_SECONDS_EACH * turn.claimed))

    def _seconds_to_look(self) -> float:
        has_failed = self.outage.has_failed(RESULTS)
        if self._returned or self._now is None:
            return FIRST_BACKOFF_SECONDS if has_failed else 0.0
        # The database's clock is not read, because that may take a query.
        now = self._now.later(self._clock.monotonic())
        has_room = len(self.slots) < self._window and not self._is_stopping
        seconds = self._updated(now).pause_seconds(now, has_room=has_room)
        return max(seconds, FIRST_BACKOFF_SECONDS) if has_failed else seconds

    def _seconds_to_show_life(self) -> float:
        """Return the seconds until the next heartbeat, or the next check of other workers, is due."""
        return min(self._liveness.seconds_to_beat(), self._dead_workers.seconds_to_look())

    # Outages.

    def _ask(self, side: str, turn: Callable[[], Turn]) -> Turn:
        """Run a turn that uses the database, unless the database is unavailable."""
        if not self.outage.may_ask:
            return Turn()
        try:
            made = self._repeated_after_deadlock(turn)
        except (DatabaseError, InterfaceError) as error:
            self.outage.began(error, side)
            self.tell(Schedule.woken)  # a notification may have been lost
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
            self.tell(Schedule.woken)
            self._over.wait(PAUSE_AFTER_DEADLOCK_SECONDS)
            return turn()

    # The claiming turn.

    @property
    def _is_stopping(self) -> bool:
        return self._stop_by < float("inf")

    @property
    def found_nothing(self) -> bool:
        """Whether the last look found nothing due, and no result since has made a delivery due."""
        return self._updated(self._time()).found_nothing

    def has_retries(self) -> bool:
        """Return True if retries are pending, including those of earlier processes."""
        now = self._time()
        schedule = self._updated(now)
        if not schedule.moments:
            next_due_at = self.queue.next_due_at(schedule.unreadable(now))
            if next_due_at is not None:
                # An overdue delivery was left to another worker that holds the webhook's lock or uses up its limit.
                soon = now.at + timedelta(seconds=LINGER_SECONDS)
                self._schedule = schedule.expecting(now, [next_due_at if next_due_at > now.at else soon])
        return bool(self._schedule.moments)

    def _claim_or_end(self, is_done: Callable[[DeliveryWorker], bool]) -> Turn:
        turn = self._claim()
        if not self.in_flight and self.recorder.is_idle and (self._is_stopping or is_done(self)):
            now = self._time()
            self._updated(now)
            self._publish(now, is_leaving=True)
            self._liveness.end()
            self.recorder.end()
            self.end()
        return turn

    def _claim(self) -> Turn:
        """Show life, release what came back, then look if a look is due."""
        has_asked = self._show_life()
        is_stopping = self._is_stopping
        if is_stopping:
            self._return_claimed()
        now = self._time()
        self._updated(now)
        has_asked = self._release_returned(now) or has_asked
        while claimed_at := self._schedule.claimed_unacknowledged(now):
            self.queue.release_unacknowledged(claimed_at)
            self._schedule = self._schedule.without_unacknowledged(now)
            has_asked = True
        may_claim = not is_stopping and not self.outage.has_failed(RESULTS)
        if may_claim and (room := self._window - len(self.slots)) > 0:
            limit, with_lost = min(room, self._batch_size), self.outage.may_take_lost
            look = self._schedule.next(now, limit=limit, with_lost=with_lost)
            if look is not None:
                return self._look(look)
        if is_stopping or now.monotonic >= self._schedule.publish_at:
            self._publish(now, is_leaving=is_stopping)
        return Turn(has_asked)

    def _look(self, look: Look) -> Turn:
        if not look.named:
            look = look._replace(latest=self._clock.latest())
        # The next look is later by a multiple of this one's duration, so it begins with its queries.
        look = look._replace(now=look.now._replace(monotonic=self._clock.monotonic()))
        began_at_ns = time.time_ns()
        try:
            found = self.queue.look(look)
        except Exception:
            self.tell(partial(Schedule.failed, look=look))
            raise
        if self._spans:
            found = found._replace(claims=self._spans.claimed(found.claims, began_at_ns))
        self._schedule = self._schedule.after(look, found, look.now.later(self._clock.monotonic()))
        self.slots.take(found.claims, look.now.monotonic)
        begin_by = look.now.monotonic + self._begin_within_seconds
        self._claimed.extend([(claim, begin_by) for claim in found.claims])
        # Its own claim in progress is not lost: the clock jumped, or the database was unavailable for a lease.
        if lost := [claim for claim in found.lost if not self.slots.is_open(*claim.key)]:
            finished = finish_all_lost(lost, self._clock.latest())
            if self._spans:
                self._spans.unsent(finished)
            self.put(finished)
        if not self._liveness.is_current:  # the look was slow, and so may be the next one
            self._liveness.beat()
        return Turn(True, len(found.claims), found.is_full)

    def _show_life(self) -> bool:
        """Renew the heartbeat, then check for dead workers, if due. Return True if one of them was due."""
        is_due = not self._seconds_to_show_life()
        if not self._liveness.seconds_to_beat():
            self._liveness.beat()
        if not self._dead_workers.seconds_to_look() and self._dead_workers.end_claims_of_dead():
            self.tell(Schedule.bereaved)
        return is_due

    def _time(self) -> Now:
        return Now(self._clock(), self._clock.monotonic())

    def _updated(self, now: Now) -> Schedule:
        """Apply all events to the schedule."""
        self._now = now
        while self._events:
            self._schedule = self._events.popleft()(self._schedule, now)
        return self._schedule

    def _publish(self, now: Now, *, is_leaving: bool) -> None:
        """Publish numbers. A leaving worker wakes others for what it made due, or left room for, and will not claim."""
        has_published = self.queue.publish(now.at)
        self._schedule = self._schedule.published()
        if is_leaving and (has_published or self._schedule.has_freed):
            self._schedule = self._schedule.without_freed()
            announce_deliveries(self._using)

    # The ends of claims.

    def _recorded(self, finished: Sequence[Finished]) -> None:
        """Process the results that were recorded."""
        self.slots.note(finished, self._clock.monotonic())
        freed = [(item.claim.webhook_id, item.ended_at) for item in finished if item.frees_next]
        # All results, because an invalid one may have been recorded before by an unacknowledged commit.
        retries = [item.step.next_attempt_at for item in finished if item.step.next_attempt_at is not None]
        # In this order, because a look may be in between: what it leaves for want of slots is looked for again.
        self.slots.give_back([item.claim for item in finished])
        self.tell(partial(Schedule.recorded, retries=retries, freed=freed) if retries or freed else Schedule.recorded)

    def _return(self, claim: Claim, due_at: datetime | None = None, *, is_unsigned: bool = False) -> None:
        self._returned.append(Returned(claim, due_at, is_unsigned))
        self.changed.set()

    def _return_claimed(self) -> None:
        """Return all claims that are not taken."""
        with suppress(IndexError):  # the engine's thread may take the last one
            while True:
                self._returned.append(Returned(self._claimed.popleft()[0]))

    def _release_returned(self, now: Now) -> bool:
        """Release the claims that came back unsent. Return True if there were any."""
        returned = [self._returned.popleft() for _ in range(len(self._returned))]
        has_returned = bool(returned)
        try:
            self._skip({each.claim.webhook_id for each in returned if each.is_unsigned}, now)
            for due_at in {each.due_at for each in returned}:
                claims = [each.claim for each in returned if each.due_at == due_at]
                self.queue.release(claims, due_at)
                self.slots.give_back(claims)
                self._schedule = self._schedule.released(now, due_at)
                returned = [each for each in returned if each.due_at != due_at]
        except BaseException:
            self._returned.extend(returned)
            raise
        return has_returned

    def _skip(self, webhook_ids: set[str], now: Now) -> None:
        """Leave webhooks alone for which this worker cannot sign."""
        if webhook_ids:
            schedule = self._schedule.skipping(now, webhook_ids)
            before = self._schedule.skips
            self.queue.leave_to_others(
                {pk: each.until for pk, each in schedule.skips.items() if each != before.get(pk)}
            )
            self._schedule = schedule

    def _wake_threads(self) -> None:
        self.changed.set()
        self.results_changed.set()


class WorkerThreads:
    """A context manager that runs a worker in two threads. It raises their first exception at its end."""

    def __init__(
        self, worker: DeliveryWorker, is_done: Callable[[DeliveryWorker], bool], notify: Callable[[], None]
    ) -> None:
        self._worker = worker
        self._is_done = is_done
        self._notify = notify
        self._errors: list[BaseException] = []
        self._writing = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(loop,), name=f"webhooks_app.{name}", daemon=True)
            for name, loop in (("claims", self._claim), ("results", self._record))
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *exception: object) -> None:
        self._worker.end()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

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

    def _run(self, loop: Callable[[DeliveryWorker], None]) -> None:
        try:
            loop(self._worker)
        except BaseException as error:  # noqa: BLE001 - raised again in the engine's thread
            self._errors.append(error)
        finally:
            connections.close_all()
            self._worker.end()
            self._notify()

    def _claim(self, worker: DeliveryWorker) -> None:
        while not worker.is_over:
            # At light load, waiting for a slow commit of results would delay an event, and save little.
            with self.turn_to_write(waits=worker.has_single_writer or not worker.recorder.is_light):
                worker.changed.clear()
                turn = worker.claim_turn(self._is_done)
            if worker.has_claims or worker.is_over:
                self._notify()
            worker.pause_after_claim(turn)
            if not worker.is_over:
                worker.changed.wait(worker.seconds_to_claim())

    def _record(self, worker: DeliveryWorker) -> None:
        while not worker.is_over:
            with self.turn_to_write():
                worker.results_changed.clear()
                worker.record_turn()
            if not worker.is_over:
                worker.results_changed.wait(worker.seconds_to_record())
