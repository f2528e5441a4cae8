"""A queue with its worker's schedule and slots, which looks whenever a test claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from webhooks_app.database.clock import Clock
from webhooks_app.delivery.claim import Claim
from webhooks_app.delivery.queue import Queue
from webhooks_app.delivery.schedule import Found, Look, Now, Schedule
from webhooks_app.delivery.slots import Slots

LEASE = timedelta(seconds=45)


class LookingQueue:
    """What a worker does with its queue, without a thread or an outage."""

    def __init__(
        self,
        *,
        clock: Clock,
        slots: Slots,
        using: str = "default",
        lease: timedelta = LEASE,
        worker: int | None = None,
    ) -> None:
        self._clock = clock
        self.slots = slots
        self.queue = Queue(using=using, lease=lease, slots=slots, worker=worker)
        self.worker = self.queue.worker
        self.schedule = Schedule(sweep_seconds=5)
        self.found = Found()
        """The answer to the last look."""

    @property
    def sql(self) -> Any:
        return self.queue._sql

    @property
    def now(self) -> Now:
        return Now(self._clock(), self._clock.monotonic())

    @property
    def look_again_at(self) -> datetime | None:
        """When to look for what the last look had to leave; None if it left nothing."""
        return self.schedule.moments[0] if self.schedule.moments else None

    def claim(self, limit: int, *, with_lost: bool = True) -> list[Claim]:
        """Look at all webhooks. Return the claims, lost ones included."""
        now = self.now
        self.schedule = self.schedule.asked(now)
        look = self.schedule.next(now, limit=limit, with_lost=with_lost)
        assert look is not None
        return self._look(look._replace(latest=self._clock.latest()))

    def claim_of(
        self, webhook_ids: Iterable[str], limit: int, *, due_from: Mapping[str, datetime] = MappingProxyType({})
    ) -> list[Claim]:
        """Claim from these webhooks, without a search for others."""
        now = self.now
        names = {pk: due_from.get(pk) for pk in webhook_ids}
        schedule = self.schedule._replace(names=names, is_asked_for=False, moments=(), next_look_at=float("inf"))
        look = schedule.next(now, limit=limit, with_lost=False)
        return self._look(look) if look else []

    def release(self, claims: Sequence[Claim], due_at: datetime | None = None) -> None:
        self.queue.release(claims, due_at)
        self.forget(claims)

    def forget(self, claims: Iterable[Claim]) -> None:
        """Free the slots of claims that were recorded or released."""
        self.slots.give_back(claims)

    def publish(self) -> None:
        self.queue.publish(self._clock())

    def release_unacknowledged(self) -> bool:
        """Release what a failed look has claimed, if it is time. Return True if the database was queried."""
        now = self.now
        claimed_at = self.schedule.claimed_unacknowledged(now)
        if claimed_at is None:
            return False
        self.queue.release_unacknowledged(claimed_at)
        self.schedule = self.schedule.without_unacknowledged(now)
        return True

    def hold_unsigned(self, claims: Sequence[Claim]) -> None:
        """Release deliveries that this worker cannot sign."""
        before = self.schedule.skips
        self.schedule = self.schedule.skipping(self.now, [claim.webhook_id for claim in claims])
        skipped = {pk: skip.until for pk, skip in self.schedule.skips.items() if skip != before.get(pk)}
        self.queue.leave_to_others(skipped)
        self.release(claims)

    def next_due_at(self) -> datetime | None:
        return self.queue.next_due_at(self.schedule.unreadable(self.now))

    def _look(self, look: Look) -> list[Claim]:
        try:
            self.found = self.queue.look(look)
        except Exception:
            self.schedule = self.schedule.failed(self.now, look)
            raise
        self.schedule = self.schedule.after(look, self.found, self.now)
        self.slots.take(self.found.claims, look.now.monotonic)
        return [*self.found.claims, *self.found.lost]
