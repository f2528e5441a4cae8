"""The built-in operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django.utils.translation import gettext as _

from .base import MISSING, BaseOperator, nodes, shown

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


class Equal(BaseOperator):
    name = "$eq"

    def problem(self, operand: Any) -> str:
        return ""

    def holds(self, value: Any, operand: Any) -> bool:
        return any(_same(item, operand) for item in _items(value))

    def steps(self, value: Any, operand: Any) -> int:
        return super().steps(value, operand) * nodes(operand)

    def wanted(self, operand: Any) -> str:
        return shown(operand)

    def types_for(self, operand: Any) -> frozenset[str]:
        return _JSON_TYPES.get(type(operand), frozenset())


class NotEqual(Equal):
    name = "$ne"

    def holds(self, value: Any, operand: Any) -> bool:
        return not super().holds(value, operand)

    def is_negative(self, operand: Any) -> bool:
        return True

    def wanted(self, operand: Any) -> str:
        return _("anything but %(value)s") % {"value": shown(operand)}

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
        return _("one of %(values)s") % {"values": shown(operand)}

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
        return _("none of %(values)s") % {"values": shown(operand)}

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
        return _("more than %(value)s") % {"value": shown(operand)}


class GreaterOrEqual(Comparison):
    name = "$gte"
    compare = operator.ge

    def wanted(self, operand: Any) -> str:
        return _("at least %(value)s") % {"value": shown(operand)}


class Less(Comparison):
    name = "$lt"
    compare = operator.lt

    def wanted(self, operand: Any) -> str:
        return _("less than %(value)s") % {"value": shown(operand)}


class LessOrEqual(Comparison):
    name = "$lte"
    compare = operator.le

    def wanted(self, operand: Any) -> str:
        return _("at most %(value)s") % {"value": shown(operand)}


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
        return _("a string that starts with %(value)s") % {"value": shown(operand)}


class EndsWith(_Text):
    name = "$endsWith"

    def holds(self, value: Any, operand: Any) -> bool:
        return any(isinstance(item, str) and item.endswith(operand) for item in _items(value))

    def wanted(self, operand: Any) -> str:
        return _("a string that ends with %(value)s") % {"value": shown(operand)}


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
