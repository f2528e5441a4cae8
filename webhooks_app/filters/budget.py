"""The cost of an evaluation in steps, which are the same on every machine and in every run."""

from __future__ import annotations

from typing import Any, Final

from ..exceptions import FilterBudgetError

EMISSION_STEPS: Final = 5_000
"""Steps of one filter for one event within the host's transaction: at most two or three milliseconds."""

WORKER_STEPS: Final = 2_000_000
"""Steps of one filter for one event in a worker: at most about a second."""


class Budget:
    """The steps that an evaluation may still take."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take steps from the budget before the work that they stand for. Raise FilterBudgetError beyond it."""
        self.left -= steps
        if self.left < 0:
            raise FilterBudgetError


def nodes(value: Any) -> int:
    """Return the number of values in a JSON value, itself included."""
    if isinstance(value, list):
        return 1 + sum(map(nodes, value))
    return 1 + sum(map(nodes, value.values())) if isinstance(value, dict) else 1
