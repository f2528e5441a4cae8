"""The recent resolution times of names."""

from __future__ import annotations

import enum
from dataclasses import dataclass

FAST_SECONDS = 1.0
MAX_NAMES = 10_000

ANSWERS_TO_FORGIVE = 5
"""Consecutive fast answers after which a name with a hang counts as fast again."""


class Pace(enum.Enum):
    """The speed of a name's lookups."""

    FAST = "fast"
    UNKNOWN = "unknown"
    SLOW = "slow"


@dataclass(slots=True)
class _History:
    is_fast: bool = False
    to_forgive: int = 0
    """Fast answers still required after the last hang."""


class NamePaces:
    """The speed of the last ``MAX_NAMES`` resolved names."""

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}

    def of(self, host: str) -> Pace:
        history = self._histories.get(host)
        if history is None:
            return Pace.UNKNOWN
        if history.to_forgive:
            return Pace.SLOW
        return Pace.FAST if history.is_fast else Pace.UNKNOWN

    def note(self, host: str, seconds: float, *, is_hang: bool) -> None:
        """Record the duration of a lookup. A single fast answer does not outweigh a hang."""
        history = self._histories.pop(host, None) or _History()
        if len(self._histories) >= MAX_NAMES:
            del self._histories[next(iter(self._histories))]
        self._histories[host] = history
        history.is_fast = seconds < FAST_SECONDS
        if is_hang:
            history.to_forgive = ANSWERS_TO_FORGIVE
        elif history.is_fast and history.to_forgive:
            history.to_forgive -= 1
