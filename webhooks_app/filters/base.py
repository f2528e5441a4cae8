"""The contract of a filter operator, and the cost of an evaluation.

The cost is counted in steps, which are the same on every machine and in every run.
"""

from __future__ import annotations

import abc
import json
from typing import Any, ClassVar, Final

from ..exceptions import FilterBudgetError

MISSING: Final = object()
"""Stands for the value of a field that the data lacks."""

MAX_SHOWN = 60

EMISSION_STEPS: Final = 5_000
"""Steps of one filter for one event within the host's transaction: at most two or three milliseconds."""

WORKER_STEPS: Final = 2_000_000
"""Steps of one filter for one event in a worker: at most about a second."""


class BaseOperator(abc.ABC):
    """One operator. Instances have no state."""

    name: ClassVar[str]
    """The name with its dollar sign, such as ``$gt``."""

    json_types: ClassVar[frozenset[str]] = frozenset()
    """The JSON Schema types of values that can satisfy it, for the check against a data model; empty for any type."""

    @abc.abstractmethod
    def problem(self, operand: Any) -> str:
        """Return the requirement that the operand violates, such as ``must be a number``; "" if it is usable."""

    @abc.abstractmethod
    def holds(self, value: Any, operand: Any) -> bool:
        """Return True if a value of the data satisfies the condition. The value may be MISSING."""

    @abc.abstractmethod
    def wanted(self, operand: Any) -> str:
        """Return the condition in words that complete "the filter requires …"."""

    def steps(self, value: Any, operand: Any) -> int:
        """Return the most steps that ``holds`` can take. A step is a comparison in Python, of about half a microsecond.

        By default it is one, or one for a list and each of its items. It is charged before ``holds`` is called.
        """
        return 1 + len(value) if isinstance(value, list) else 1

    def is_negative(self, operand: Any) -> bool:
        """Return True if all values at a path through lists must satisfy the condition, not only one of them."""
        return False

    def types_for(self, operand: Any) -> frozenset[str]:
        """Return the JSON Schema types of the values that can satisfy this operand; empty for any type."""
        return self.json_types


def shown(value: Any) -> str:
    """Return a value of the data in a short form for messages."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


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
