"""The contract of a filter operator, the cost of an evaluation, and the built-in operators.

The cost is counted in steps, which are the same on every machine and in every run.
"""

from __future__ import annotations

import abc
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from django.utils.translation import gettext as _

from ..exceptions import FilterBudgetError

MISSING: Final = object()
"""Stands for the value of a field that the data lacks."""

MAX_QUOTED = 60

EMISSION_STEPS: Final = 5_000
"""Steps of one filter for one event within the host's transaction: at most two or three milliseconds."""

WORKER_STEPS: Final = 2_000_000
"""Steps of one filter for one event in a worker: at most about a second."""

MAX_OPTIONS = 100

OPTIONS_PER_STEP = 32
"""Comparisons with the options of ``$in`` that take as long as one step, because they need no Python code."""

NESTED = (list, dict)

NUMBER = frozenset({"integer", "number"})
STRING = frozenset({"string"})
_JSON_TYPES: Mapping[type, frozenset[str]] = {
    bool: frozenset({"boolean"}),
    int: NUMBER,
    float: NUMBER,
    str: STRING,
    type(None): frozenset({"null"}),
}


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


def quoted(value: Any) -> str:
    """Return a value of the data in a short form for messages."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


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


class Equal(BaseOperator):
    name = "$eq"

    def problem(self, operand: Any) -> str:
        return ""

    def holds(self, value: Any, operand: Any) -> bool:
        return any(_same(item, operand) for item in _items(value))

    def steps(self, value: Any, operand: Any) -> int:
        return super().steps(value, operand) * nodes(operand)

    def wanted(self, operand: Any) -> str:
        return quoted(operand)

    def types_for(self, operand: Any) -> frozenset[str]:
        return _JSON_TYPES.get(type(operand), frozenset())


class NotEqual(Equal):
    name = "$ne"

    def holds(self, value: Any, operand: Any) -> bool:
        return not super().holds(value, operand)

    def is_negative(self, operand: Any) -> bool:
        return True

    def wanted(self, operand: Any) -> str:
        return _("anything but %(value)s") % {"value": quoted(operand)}

    def types_for(self, operand: Any) -> frozenset[str]:
        return frozenset()


class In(BaseOperator):
    name = "$in"

    def problem(self, operand: Any) -> str:
        is_list = isinstance(operand, list) and 1 <= len(operand) <= MAX_OPTIONS
        return "" if is_list else _("must be a list of 1 to %(most)d values") % {"most": MAX_OPTIONS}

    def holds(self, value: Any, operand: Any) -> bool:
        # Python's equality, which is faster, also covers JSON equality.
        items = [item for item in _items(value) if item in operand]
        if not items:
            return False
        nested = [option for option in operand if isinstance(option, NESTED)]
        booleans = [option for option in operand if isinstance(option, bool)]
        others = [option for option in operand if not isinstance(option, (list, dict, bool))]
        for item in items:
            if isinstance(item, NESTED):
                if any(_same(item, option) for option in nested):
                    return True
            elif item in (booleans if isinstance(item, bool) else others):
                return True
        return False

    def steps(self, value: Any, operand: Any) -> int:
        each = len(operand) // OPTIONS_PER_STEP + 1
        each += sum(nodes(option) for option in operand if isinstance(option, NESTED))
        return len(operand) // 4 + super().steps(value, operand) * each

    def wanted(self, operand: Any) -> str:
        return _("one of %(values)s") % {"values": quoted(operand)}

    def types_for(self, operand: Any) -> frozenset[str]:
        types = [_JSON_TYPES.get(type(option), frozenset()) for option in operand]
        return frozenset().union(*types) if all(types) else frozenset()


class NotIn(In):
    name = "$nin"

    def holds(self, value: Any, operand: Any) -> bool:
        return not super().holds(value, operand)

    def is_negative(self, operand: Any) -> bool:
        return True

    def wanted(self, operand: Any) -> str:
        return _("none of %(values)s") % {"values": quoted(operand)}

    def types_for(self, operand: Any) -> frozenset[str]:
        return frozenset()


class Comparison(BaseOperator):
    """Compares numbers with numbers, and strings with strings by code point, which also orders times."""

    compare: ClassVar[Callable[[Any, Any], object]]

    def problem(self, operand: Any) -> str:
        return "" if _kind(operand) else _("must be a number or a string")

    def holds(self, value: Any, operand: Any) -> bool:
        kind, compare = _kind(operand), type(self).compare
        if not isinstance(value, list):
            return _kind(value) == kind and bool(compare(value, operand))
        return any(_kind(item) == kind and bool(compare(item, operand)) for item in value)

    def types_for(self, operand: Any) -> frozenset[str]:
        return NUMBER if _kind(operand) == "number" else STRING


class Greater(Comparison):
    name = "$gt"
    compare = operator.gt

    def wanted(self, operand: Any) -> str:
        return _("more than %(value)s") % {"value": quoted(operand)}


class GreaterOrEqual(Comparison):
    name = "$gte"
    compare = operator.ge

    def wanted(self, operand: Any) -> str:
        return _("at least %(value)s") % {"value": quoted(operand)}


class Less(Comparison):
    name = "$lt"
    compare = operator.lt

    def wanted(self, operand: Any) -> str:
        return _("less than %(value)s") % {"value": quoted(operand)}


class LessOrEqual(Comparison):
    name = "$lte"
    compare = operator.le

    def wanted(self, operand: Any) -> str:
        return _("at most %(value)s") % {"value": quoted(operand)}


class Exists(BaseOperator):
    name = "$exists"

    def problem(self, operand: Any) -> str:
        return "" if isinstance(operand, bool) else _("must be true or false")

    def holds(self, value: Any, operand: Any) -> bool:
        return (value is not MISSING) is operand

    def steps(self, value: Any, operand: Any) -> int:
        return 1

    def is_negative(self, operand: Any) -> bool:
        return not operand

    def wanted(self, operand: Any) -> str:
        return _("the field to exist") if operand else _("the field not to exist")


class _Text(BaseOperator):
    json_types = STRING

    def problem(self, operand: Any) -> str:
        return "" if isinstance(operand, str) and operand else _("must be a string that is not empty")


class StartsWith(_Text):
    name = "$startsWith"

    def holds(self, value: Any, operand: Any) -> bool:
        return any(isinstance(item, str) and item.startswith(operand) for item in _items(value))

    def wanted(self, operand: Any) -> str:
        return _("a string that starts with %(value)s") % {"value": quoted(operand)}


class EndsWith(_Text):
    name = "$endsWith"

    def holds(self, value: Any, operand: Any) -> bool:
        return any(isinstance(item, str) and item.endswith(operand) for item in _items(value))

    def wanted(self, operand: Any) -> str:
        return _("a string that ends with %(value)s") % {"value": quoted(operand)}


OPERATORS: Sequence[type[BaseOperator]] = (
    *(Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual, In, NotIn),
    *(Exists, StartsWith, EndsWith),
)


def _items(value: Any) -> list[Any]:
    """Return the values to which an operator applies: a list itself, and each of its items."""
    return [value, *value] if isinstance(value, list) else [value]


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _same(value: Any, operand: Any) -> bool:
    """Compare as JSON does: 1 equals 1.0, and true is not a number."""
    if isinstance(value, bool) or isinstance(operand, bool):
        return value is operand
    if isinstance(value, list) and isinstance(operand, list):
        return len(value) == len(operand) and all(map(_same, value, operand))
    if isinstance(value, dict) and isinstance(operand, dict):
        return value.keys() == operand.keys() and all(_same(value[key], operand[key]) for key in value)
    return bool(value == operand)
