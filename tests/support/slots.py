"""Slots for tests of other features, where every webhook counts as fast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webhooks_app.database.clock import Clock
from webhooks_app.delivery.slots import Slots


class OpenSlots(Slots):
    def learn(self, webhook_id: str, owner_id: Any, is_fast: bool | None) -> None:
        super().learn(webhook_id, owner_id, True if is_fast is None else is_fast)

    def refresh(self, stored: Iterable[tuple[str, bool | None]]) -> None:
        super().refresh((webhook_id, True if is_fast is None else is_fast) for webhook_id, is_fast in stored)


def open_slots(clock: Clock, *, cap: int = 16) -> Slots:
    """Return enough slots that only the limit of a webhook applies."""
    return OpenSlots(clock=clock, window=1_000_000, cap=cap)
