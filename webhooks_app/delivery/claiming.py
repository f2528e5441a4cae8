"""The claiming side of a worker: it applies events to the schedule, asks the queue, and hands over the claims."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar

from ..conf import settings
from ..database.clock import Clock
from ..once import Once
from ..signals import announce_deliveries
from .claim import Claim, Finished
from .listening import ScheduleEvent, commit_event
from .liveness import DeadWorkers, Liveness
from .outage import Outage
from .queue import Queue
from .schedule import LINGER_SECONDS, Found, Look, Now, Schedule
from .sending import finish_all_lost
from .slots import Slots, usual_cap
from .sql import sql_for

logger = logging.getLogger("webhooks_app.delivery")

T = TypeVar("T")


class Turn(NamedTuple):
    """What a turn did."""

    has_asked: bool = False
    """Whether the database was queried."""
    claimed: int = 0
    """The number of claims, without lost ones."""
    is_full: bool = False
    """See ``Found.is_full``."""


class Handover:
    """Claims on their way to the engine's thread, and those that come back unsent. Thread-safe."""

    def __init__(self, *, begin_within_seconds: float) -> None:
        self._begin_within_seconds = begin_within_seconds
        self.claimed: deque[tuple[Claim, float]] = deque()
        """Claims to send, each with the time until which its request must begin (monotonic)."""
        self._unsent: deque[Claim] = deque()
        self._unsigned: deque[Claim] = deque()
        self._postponed: deque[tuple[Claim, datetime]] = deque()

    @property
    def has_returned(self) -> bool:
        return bool(self._unsent or self._unsigned or self._postponed)

    def put(self, claims: Sequence[Claim], claimed_at: float) -> None:
        begin_by = claimed_at + self._begin_within_seconds
        self.claimed.extend([(claim, begin_by) for claim in claims])

    def drop(self) -> None:
        """Return all claims unsent."""
        with suppress(IndexError):  # the engine's thread may take the last one
            while True:
                self._unsent.append(self.claimed.popleft()[0])

    def postpone(self, claim: Claim, due_at: datetime) -> None:
        self._postponed.append((claim, due_at))

    def refuse(self, claim: Claim) -> None:
        """Return a claim that this worker cannot sign."""
        self._unsigned.append(claim)

    def keep(self, claims: Sequence[Claim]) -> None:
        """Return claims unsent."""
        self._unsent.extend(claims)

    def unsent(self) -> list[Claim]:
        return _taken(self._unsent)

    def unsigned(self) -> list[Claim]:
        return _taken(self._unsigned)

    def postponed(self) -> list[tuple[Claim, datetime]]:
        return _taken(self._postponed)


def _taken(items: deque[T]) -> list[T]:
    return [items.popleft() for _ in range(len(items))]


class Claimer:
    """Claim due deliveries while the window has room. ``take`` is for the engine's thread, ``turn`` for its own.

    ``put_lost`` is called with the results of claims whose workers were lost.
    """

    def __init__(
        self,
        *,
        using: str,
        clock: Clock,
        window: int,
        outage: Outage,
        is_woken: bool,
        put_lost: Callable[[Sequence[Finished]], object],
    ) -> None:
        self._using = using
        self._clock = clock
        self._outage = outage
        self._window = window
        self._put_lost = put_lost
        self._batch_size = settings.BATCH_SIZE
        self.slots = Slots(
            window=window,
            cap=usual_cap(window, settings.MAX_IN_FLIGHT_PER_WEBHOOK),
            slow_apart=sql_for(using).slow_claims_apart,
        )
        self.queue = Queue(using=using, lease=timedelta(seconds=settings.LEASE_SECONDS), slots=self.slots)
        worker = self.queue.worker
        # Half of the time between timeout and lease is for starting the request, the other half for recording.
        self._handover = Handover(begin_within_seconds=(settings.LEASE_SECONDS - settings.TIMEOUT_SECONDS) / 2)
        self._liveness = Liveness(using=using, clock=clock, worker=worker, on_missing=self._handover.drop)
        self._dead_workers = DeadWorkers(using=using, clock=clock, outage=outage, worker=worker)
        self._reported = Once()
        self._schedule = Schedule(sweep_seconds=settings.SWEEP_SECONDS)
        self._now: Now | None = None
        """The time of the last turn."""
        self._events: deque[ScheduleEvent] = deque()
        """What happened since. All threads add to it; the claiming one applies it."""
        self.changed = commit_event(using, self.tell, is_woken=is_woken)
        """Set if there may be something to do before the end of the pause."""

    @property
    def has_claims(self) -> bool:
        """Whether ``take`` would yield a claim."""
        return bool(self._handover.claimed) and self._liveness.is_current

    @property
    def found_nothing(self) -> bool:
        """Whether the last look found nothing due, and no result has been recorded since."""
        return self._updated(self._time()).found_nothing

    def tell(self, event: ScheduleEvent) -> None:
        """Apply an event to the schedule before its next decision. Thread-safe."""
        self._events.append(event)

    def take(self) -> Iterator[Claim]:
        """Yield new claims, except those that have waited too long to be sent.

        Yield nothing while another worker may consider this one dead.
        """
        claimed = self._handover.claimed
        while claimed:
            now = self._clock.monotonic()
            if not self._liveness.is_current_at(now):
                self.changed.set()
                return
            try:
                claim, begin_by = claimed.popleft()
            except IndexError:  # the claiming thread has dropped the last one
                return
            if now < begin_by:
                self.slots.begin(claim, now)
                yield claim
            else:
                self._handover.keep([claim])
                self.changed.set()

    def hold_unsigned(self, claim: Claim, error: Exception) -> None:
        """Leave a claim that this worker cannot sign to others. Log one record per webhook. Thread-safe."""
        webhook_id = claim.webhook_id
        if self._reported.is_first(webhook_id):
            text = "This worker cannot sign for webhook %s, and leaves its deliveries to others: %s"
            logger.error(text, webhook_id, error, extra={"webhook_id": webhook_id})
        self._handover.refuse(claim)
        self.changed.set()

    def postpone(self, claim: Claim, due_at: datetime) -> None:
        """Release a claim until ``due_at``. Thread-safe."""
        self._handover.postpone(claim, due_at)
        self.changed.set()

    def turn(self, *, is_stopping: bool, may_claim: bool = True) -> Turn:
        """Release unsent claims, then look if a look is due."""
        has_asked = self._show_life()
        if is_stopping:
            self._handover.drop()
        now = self._time()
        self._updated(now)
        has_asked = self._release_returned(now) or has_asked
        while claimed_at := self._schedule.claimed_unacknowledged(now):
            self.queue.release_unacknowledged(claimed_at)
            self._schedule = self._schedule.without_unacknowledged(now)
            has_asked = True
        schedule = self._schedule
        if may_claim and not is_stopping and (room := self._window - len(self.slots)) > 0:
            limit, with_lost = min(room, self._batch_size), self._outage.may_take_lost
            look = schedule.next(now, limit=limit, with_lost=with_lost)
            if look is not None:
                return self._look(look)
        if is_stopping:
            self._announce_freed()
        if is_stopping or now.monotonic >= schedule.publish_at:
            self._publish(now)
        return Turn(has_asked)

    def end(self) -> None:
        """Clean up after the last claim, with nothing in flight."""
        now = self._time()
        self._updated(now)
        self._announce_freed()
        self._publish(now)
        self._liveness.end()

    def seconds_to_show_life(self) -> float:
        """Return the seconds until the next heartbeat, or the next check of other workers, is due."""
        return min(self._liveness.seconds_to_beat(), self._dead_workers.seconds_to_look())

    def pause_seconds(self, *, is_stopping: bool) -> float:
        """Return the seconds until the next turn, unless ``changed`` is set before."""
        if self._handover.has_returned or self._now is None:
            return 0.0
        # The database's clock is not read, because that may take a query.
        now = self._now.later(self._clock.monotonic())
        return self._updated(now).pause_seconds(now, has_room=len(self.slots) < self._window and not is_stopping)

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

    def recorded(self, finished: Sequence[Finished]) -> None:
        """Process the results that were recorded. Thread-safe."""
        self.slots.note(finished, self._clock.monotonic())
        freed = [(item.claim.webhook_id, item.ended_at) for item in finished if item.frees_next]
        # All results, because an invalid one may have been recorded before by an unacknowledged commit.
        retries = [item.step.next_attempt_at for item in finished if item.step.next_attempt_at is not None]
        # Before the slots are free, because a stopping worker ends with the last one.
        self.tell(partial(Schedule.recorded, retries=retries, freed=freed) if retries or freed else Schedule.recorded)
        self.slots.give_back([item.claim for item in finished])
        self.tell(Schedule.recorded)  # again, because a look in between has not found them free
        self.changed.set()

    def _time(self) -> Now:
        return Now(self._clock(), self._clock.monotonic())

    def _updated(self, now: Now) -> Schedule:
        """Apply all events to the schedule."""
        self._now = now
        while self._events:
            self._schedule = self._events.popleft()(self._schedule, now)
        return self._schedule

    def _show_life(self) -> bool:
        """Renew the heartbeat, then check for dead workers, if due. Return True if one of them was due."""
        is_due = not self.seconds_to_show_life()
        if not self._liveness.seconds_to_beat():
            self._liveness.beat()
        if not self._dead_workers.seconds_to_look() and self._dead_workers.end_claims_of_dead():
            self.tell(Schedule.bereaved)
        return is_due

    def _look(self, look: Look) -> Turn:
        if not look.named:
            look = look._replace(latest=self._clock.latest())
        # The next look is later by a multiple of this one's duration, so it begins with its queries.
        look = look._replace(now=look.now._replace(monotonic=self._clock.monotonic()))
        try:
            found = self.queue.look(look)
        except Exception:
            self.tell(partial(Schedule.failed, look=look))
            raise
        now = look.now.later(self._clock.monotonic())
        self._schedule = self._schedule.after(look, found, now)
        self.slots.take(found.claims, look.now.monotonic)
        self._handover.put(found.claims, look.now.monotonic)
        self._record_lost(found)
        if not self._liveness.is_current:  # the look was slow, and so may be the next one
            self._liveness.beat()
        return Turn(True, len(found.claims), found.is_full)

    def _record_lost(self, found: Found) -> None:
        # Its own claim in progress is not lost: the clock jumped, or the database was unavailable for a lease.
        if lost := [claim for claim in found.lost if claim not in self.slots]:
            self._put_lost(finish_all_lost(lost, self._clock.latest()))

    def _announce_freed(self) -> None:
        """Wake other workers for the deliveries that this one made due and will not claim."""
        if self._schedule.has_freed:
            self._schedule = self._schedule.without_freed()
            announce_deliveries(self._using)

    def _publish(self, now: Now) -> None:
        self.queue.publish(now.at)
        self._schedule = self._schedule.published()

    def _release_returned(self, now: Now) -> bool:
        """Release the claims that came back unsent. Return True if there were any."""
        if not self._handover.has_returned:
            return False
        if unsent := self._handover.unsent():
            self._release(unsent, now)
        if unsigned := self._handover.unsigned():
            before = self._schedule.skips
            self._schedule = self._schedule.skipping(now, [claim.webhook_id for claim in unsigned])
            new = {pk: skip.until for pk, skip in self._schedule.skips.items() if skip != before.get(pk)}
            self._release(unsigned, now, lambda: self.queue.leave_to_others(new))
        for claim, due_at in self._handover.postponed():
            self._release([claim], now, due_at=due_at)
        return True

    def _release(
        self,
        claims: Sequence[Claim],
        now: Now,
        before: Callable[[], object] | None = None,
        due_at: datetime | None = None,
    ) -> None:
        try:
            if before:
                before()
            self.queue.release(claims, due_at)
        except BaseException:
            self._handover.keep(claims)
            raise
        self.slots.give_back(claims)
        self._schedule = self._schedule.released(now, due_at)
