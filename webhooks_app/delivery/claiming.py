"""Claiming of due deliveries: the times of queries, the number of claims, and the release of unsent ones."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from ..conf import settings
from ..database.clock import Clock
from ..signals import announce_deliveries
from .claim import Claim, Finished
from .liveness import DeadWorkers, Liveness
from .once_per_webhook import OncePerWebhook
from .outage import Outage
from .polling import LINGER_SECONDS, PollSchedule, commit_event
from .queue import Queue
from .sending import finish_all_lost
from .slots import Slots, usual_cap
from .sql import sql_for

logger = logging.getLogger("webhooks_app.delivery")

FREED_WITHIN = timedelta(seconds=1)
"""Margin for the clocks of all workers: the next delivery of a group is not due earlier before the attempt's end."""


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
        self.polls = PollSchedule(clock, sweep_seconds=settings.SWEEP_SECONDS)
        self.slots = Slots(
            clock=clock,
            window=window,
            cap=usual_cap(window, settings.MAX_IN_FLIGHT_PER_WEBHOOK),
            slow_apart=sql_for(using).slow_claims_apart,
        )
        self.queue = Queue(using=using, clock=clock, lease=timedelta(seconds=settings.LEASE_SECONDS), slots=self.slots)
        worker = self.queue.worker
        self._liveness = Liveness(using=using, clock=clock, worker=worker, on_missing=self._drop_claimed)
        self._dead_workers = DeadWorkers(using=using, clock=clock, outage=outage, worker=worker)
        # Half of the time between timeout and lease is for starting the request, the other half for recording.
        self._begin_within_seconds = (settings.LEASE_SECONDS - settings.TIMEOUT_SECONDS) / 2
        self._claimed: deque[tuple[Claim, float]] = deque()
        self._too_old: deque[Claim] = deque()
        self._unsigned: deque[Claim] = deque()
        self._postponed: deque[tuple[Claim, datetime]] = deque()
        self._freed: deque[tuple[str, datetime]] = deque()
        """Webhooks with a delivery that became due by a recorded result, with the end of the attempt."""
        self._due_from: dict[str, datetime] = {}
        self._served: set[str] = set()
        """The webhooks of the last claim."""
        self._reported = OncePerWebhook()
        self._look_again_at: datetime | None = None
        self.claimed = 0
        """The number of deliveries that the last turn claimed, without lost ones."""
        self.found_nothing = False
        """Whether the last look found nothing due, and no result since has made a delivery due."""
        self.changed = commit_event(using, self.polls, is_woken=is_woken)
        """Set if there may be something to do before the end of the pause."""

    @property
    def has_claims(self) -> bool:
        """Whether ``take`` would yield a claim."""
        return bool(self._claimed) and self._liveness.is_current

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
            except IndexError:
                return
            if now < begin_by:
                self.slots.begin(claim, now)
                yield claim
            else:
                self._too_old.append(claim)
                self.changed.set()

    def hold_unsigned(self, claim: Claim, error: Exception) -> None:
        """Leave a claim that this worker cannot sign to others. Log one record per webhook. Thread-safe."""
        webhook_id = claim.webhook_id
        if self._reported.is_first(webhook_id):
            text = "This worker cannot sign for webhook %s, and leaves its deliveries to others: %s"
            logger.error(text, webhook_id, error, extra={"webhook_id": webhook_id})
        self._unsigned.append(claim)
        self.changed.set()

    def postpone(self, claim: Claim, due_at: datetime) -> None:
        """Release a claim until ``due_at``. Thread-safe."""
        self._postponed.append((claim, due_at))
        self.changed.set()

    def turn(self, *, is_stopping: bool, may_claim: bool = True) -> bool:
        """Release unsent claims, then claim if a query is due. Return True if the database was queried."""
        self.claimed = 0
        has_asked = self._show_life()
        to_release = list(self.take()) if is_stopping else []
        to_release += [self._too_old.popleft() for _ in range(len(self._too_old))]
        if to_release:
            self._release(to_release)
        if unsigned := [self._unsigned.popleft() for _ in range(len(self._unsigned))]:
            to_release += unsigned
            self._release(unsigned, self.queue.hold_unsigned)
        while self._postponed:
            claim, due_at = self._postponed.popleft()
            to_release.append(claim)
            self._release([claim], partial(self.queue.release, due_at=due_at))
            self.polls.look_at(due_at)
        while self.queue.release_unacknowledged():
            has_asked = True
            self.polls.look_soon()
        self._name_freed()
        if is_stopping:
            self._announce_freed()
        if may_claim and not is_stopping and self._has_room and self.polls.is_look_due():
            self._claim()
            if not self._liveness.is_current:  # the claim was slow, and so may be the next one
                self._liveness.beat()
            return True
        self.queue.publish(at_once=is_stopping)
        return has_asked or bool(to_release)

    def end(self) -> None:
        """Clean up after the last claim, with nothing in flight."""
        self._name_freed()
        self._announce_freed()
        self.queue.publish(at_once=True)
        self._liveness.end()

    def seconds_to_show_life(self) -> float:
        """Return the seconds until the next heartbeat, or the next check of other workers, is due."""
        return min(self._liveness.seconds_to_beat(), self._dead_workers.seconds_to_look())

    def pause_seconds(self, *, is_stopping: bool) -> float:
        """Return the seconds until the next turn, unless ``changed`` is set before."""
        if self._freed or self._too_old or self._unsigned or self._postponed:
            return 0.0
        seconds = min(settings.SWEEP_SECONDS, self.queue.seconds_to_publish(), self.queue.seconds_to_release())
        return min(seconds, self.polls.seconds_to_look()) if self._has_room and not is_stopping else seconds

    def has_retries(self) -> bool:
        """Return True if retries are pending, including those of earlier processes."""
        if not self.polls.expects_work:
            next_due_at = self.queue.next_due_at()
            if next_due_at is not None:
                # An overdue delivery was left to another worker that holds the webhook's lock or uses up its limit.
                soon = self._clock() + timedelta(seconds=LINGER_SECONDS)
                self.polls.look_at(next_due_at if next_due_at > self._clock() else soon)
        return self.polls.expects_work

    def recorded(self, finished: Sequence[Finished]) -> None:
        """Process the results that were recorded. Thread-safe."""
        self.slots.note(finished)
        # Before the slots are free, because a stopping worker ends with the last one.
        freed = [(item.claim.webhook_id, item.ended_at) for item in finished if item.frees_next]
        self._freed.extend(freed)
        self.queue.forget([item.claim for item in finished])
        # All results, because an invalid one may have been recorded before by an unacknowledged commit.
        retries = [item.step.next_attempt_at for item in finished if item.step.next_attempt_at is not None]
        self.polls.expect(retries)
        if retries or freed or self.queue.left_behind:  # a retry may have a notice, which is due now
            self.found_nothing = False
        if retries or self.queue.left_behind:
            self.polls.look_soon()
        self.changed.set()

    @property
    def _has_room(self) -> bool:
        return len(self.slots) < self._window

    def _show_life(self) -> bool:
        """Renew the heartbeat, then check for dead workers, if due. Return True if one of them was due."""
        is_due = not self.seconds_to_show_life()
        if not self._liveness.seconds_to_beat():
            self._liveness.beat()
        if not self._dead_workers.seconds_to_look() and self._dead_workers.end_claims_of_dead():
            self.queue.look_for_lost()
            self.polls.wake()
        return is_due

    def _drop_claimed(self) -> None:
        """Release claims that were not started. Other workers may have them by now."""
        with suppress(IndexError):  # the engine's thread may take the last one
            while True:
                self._too_old.append(self._claimed.popleft()[0])

    def _name_freed(self) -> None:
        """Make claims due from the webhooks with a delivery that became due by a recorded result."""
        freed = [self._freed.popleft() for _ in range(len(self._freed))]
        for webhook_id, ended_at in freed:
            since = ended_at - FREED_WITHIN
            self._due_from[webhook_id] = min(since, self._due_from.get(webhook_id, since))
        if freed:
            self.polls.notified([webhook_id for webhook_id, _ in freed], more_follow=False)

    def _announce_freed(self) -> None:
        """Wake other workers for the deliveries that this one made due and will not claim."""
        if self._due_from:
            self._due_from = {}
            announce_deliveries(self._using)

    def _claim(self) -> None:
        began_at = self._clock.monotonic()
        room = min(self._window - len(self.slots), self._batch_size)
        named = self.polls.take_named()
        if named:
            claims = self.queue.claim_of(named, room, due_from=self._due_from)
            self._due_from = {}
            # The deliveries of a notification may have been claimed before it arrived.
            without = set(named) - self._served - {claim.webhook_id for claim in claims}
            self.polls.claimed_named(is_complete=not without and not self.queue.left_behind)
        else:
            self._due_from = {}
            claims = self.queue.claim(room, with_lost=self._outage.may_take_lost)
            self.found_nothing = not claims and not self.queue.due_soon
            is_complete = not self.queue.left_behind and not self.queue.due_soon
            seconds = self._clock.monotonic() - began_at
            self.polls.looked(found=bool(claims), took_seconds=seconds, is_complete=is_complete)
        self._served = {claim.webhook_id for claim in claims}
        if self.queue.look_again_at not in (None, self._look_again_at):
            self._look_again_at = self.queue.look_again_at
            self.polls.look_at(self._look_again_at)
        new = [claim for claim in claims if claim.lost_since is None]
        self.claimed = len(new)
        self._claimed.extend((claim, began_at + self._begin_within_seconds) for claim in new)
        # Its own claim in progress is not lost: the clock jumped, or the database was unavailable for a lease.
        lost = [claim for claim in claims if claim.lost_since is not None and claim not in self.slots]
        if lost:
            self._put_lost(finish_all_lost(lost, self._clock.latest()))

    def _release(self, claims: Sequence[Claim], release: Callable[[Sequence[Claim]], None] | None = None) -> None:
        try:
            (release or self.queue.release)(claims)
        except BaseException:
            self._too_old.extend(claims)
            raise
        self.polls.look_soon()
