"""Numbers beside their nouns, in what is said in English alone: by commands, checks and the doctor."""

from __future__ import annotations


def counted(number: float, one: str, many: str = "") -> str:
    """Return a number and what it counts: ``1 event``, ``2,000 events``, ``1 process delivers``."""
    return f"{number:,.15g} {one if number == 1 else many or f'{one}s'}"
