"""Numbers with their nouns, for the English output of commands, checks and the doctor."""

from __future__ import annotations


def counted(number: float, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 event``, ``2,000 events``, ``2 deliveries``."""
    return f"{number:,.15g} {one if number == 1 else many or f'{one}s'}"
