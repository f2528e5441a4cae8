"""Slots for tests, with claims in place of rows or without limits."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from webhooks_app.delivery.slots import Slots, usual_cap

MANY = 1_000_000
_numbers = itertools.count(1)


class OpenSlots(Slots):
    def learn(self, webhook_id: str, owner_id: Any, is_fast: bool | None) -> None:
        super().learn(webhook_id, owner_id, True if is_fast is None else is_fast)

    def refresh(self, stored: Iterable[tuple[str, bool | None]]) -> None:
        super().refresh((webhook_id, True if is_fast is None else is_fast) for webhook_id, is_fast in stored)


def open_slots(*, cap: int = 16) -> Slots:
    """Return enough slots that only the limit of a webhook applies."""
    return OpenSlots(window=MANY, cap=cap)


class FakeWorker:
    """Slots of one worker, with claims in place of rows."""

    def __init__(self, clock: Any, window: int = 2000, cap: int | None = None) -> None:
        self.clock = clock
        self.slots = Slots(window=window, cap=cap or usual_cap(window, 50))

    def know(self, webhook: str, owner: Any = "alice", is_fast: bool | None = None) -> None:
        self.slots.learn(webhook, owner, is_fast)

    def rank(self, webhook: str) -> int:
        """Return 2 for a fast webhook, 1 for an unknown one, and 0 for a slow one."""
        holder = self.slots._webhooks[webhook]
        return 0 if holder.is_slow else 2 if holder.is_fast else 1

    def has_result(self, webhook: str) -> bool:
        """Return True if a request to the webhook has ended, or its pace is known from another worker."""
        return self.slots._webhooks[webhook].is_fast is not None

    def room(self, webhook: str) -> int:
        """Return how many requests to the webhook may start now."""
        asks = self.slots.asks([webhook], MANY, self.clock.monotonic())
        return min(asks[0].room, asks[0].cap - asks[0].own) if asks else 0

    def begin(self, webhook: str, number: int = MANY) -> list[Any]:
        """Start as many requests as permitted, up to the number. Return their claims."""
        claims = [claim_of(webhook) for _ in range(min(number, self.room(webhook)))]
        self.slots.take(claims, self.clock.monotonic())
        for claim in claims:
            self.slots.begin(claim, self.clock.monotonic())
        return claims

    def end(self, claims: Iterable[Any], seconds: float, kind: str = "event", result: str = "") -> None:
        """End requests after these seconds, by default delivered, or timed out after 30 seconds."""
        result = result or ("succeeded" if seconds < 30 else "timeout")
        attempt: Any = SimpleNamespace(duration_ms=round(1000 * seconds), result=result)
        step: Any = None
        finished: Any = [(claim_of(claim.webhook_id, kind), attempt, step, step) for claim in claims]
        self.slots.note(finished, self.clock.monotonic())
        self.slots.give_back(claims)


def claim_of(webhook: str, kind: str = "event") -> Any:
    return SimpleNamespace(
        webhook_id=webhook,
        delivery_id=f"dlv_{next(_numbers)}",
        number=1,
        kind=kind,
        lost_since=None,
        lane=SimpleNamespace(is_changing_url=False),
    )
