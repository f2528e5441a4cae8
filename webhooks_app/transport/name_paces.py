"""The pace at which names were resolved lately."""

from __future__ import annotations

import enum
from dataclasses import dataclass

FAST_SECONDS = 1.0
MAX_NAMES = 10_000

ANSWERS_TO_FORGIVE = 5
"""Fast answers in a row after which a name that hung counts as fast again."""


class Pace(enum.Enum):
    """How long the lookups of a name take."""

    FAST = "fast"
    UNKNOWN = "unknown"
    SLOW = "slow"


@dataclass(slots=True)
class _History:
    is_fast: bool = False
    to_forgive: int = 0
    """Fast answers that the name still needs, since it hung."""


class NamePaces:
    """Remembers the last ``MAX_NAMES`` names that were resolved."""

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
        """Take the duration of a lookup into account; a single fast answer does not make up for a hang."""
        history = self._histories.pop(host, None) or _History()
        if len(self._histories) >= MAX_NAMES:
            del self._histories[next(iter(self._histories))]
        self._histories[host] = history
        history.is_fast = seconds < FAST_SECONDS
        if is_hang:
            history.to_forgive = ANSWERS_TO_FORGIVE
        elif history.is_fast and history.to_forgive:
            history.to_forgive -= 1
