"""The structure of a filter, and its evaluation.

A filter is a JSON object whose entries must all hold. The key of an entry is a field with a condition as its value,
or an operator with its operand, or ``$and`` and ``$or`` with a list of conditions, or ``$not`` with one condition. A
value that is not an object is short for ``$eq``. A list matches if the list itself, or one of its items, does.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.translation import gettext as _

from ..exceptions import InvalidFilterError
from ..protocol import json_data
from .operators import EMISSION_STEPS, MISSING, BaseOperator, Budget, quoted

MAX_BYTES = 4096
MAX_FILTER_DEPTH = 8
MAX_CONDITIONS = 64

COMBINING = ("$and", "$or", "$not")
"""Operators on conditions; they are a part of the structure."""

Operators = Mapping[str, BaseOperator]


class Mismatch(NamedTuple):
    """The first condition that does not hold."""

    path: str
    """The path with ``data``, such as ``data.customer.country``."""
    found: Any
    wanted: str

    def __str__(self) -> str:
        values = {"path": self.path, "wanted": self.wanted}
        if self.found is MISSING:
            return _("%(path)s is missing, the filter requires %(wanted)s") % values
        return _("%(path)s is %(found)s, the filter requires %(wanted)s") % {**values, "found": quoted(self.found)}


class Use(NamedTuple):
    """An operator in a filter, on the field at a path."""

    path: tuple[str, ...]
    operator: BaseOperator
    operand: Any
    keys: tuple[str, ...] = ()
    """The keys that lead to its field in the filter, such as ``("$or[1]", "$not", "amount")``, for messages."""
    is_negated: bool = False
    """True inside of a ``$not``, where the filter matches if the operator does not hold."""


class Filter:
    """A parsed filter."""

    def __init__(self, source: Any, operators: Operators) -> None:
        """Parse a filter. Raise InvalidFilterError, which names the path of the problem."""
        if not isinstance(source, dict):
            raise InvalidFilterError("", _("must be an object"))
        size = len(json.dumps(source, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))
        if size > MAX_BYTES:
            raise InvalidFilterError("", _("has %(size)d bytes; at most %(most)d") % {"size": size, "most": MAX_BYTES})
        for path, problem in json_data.problems(source).items():
            raise InvalidFilterError(path, problem)
        self._condition = _Parser(operators).parse(source, (), ())

    def holds(self, data: Mapping[str, Any], *, steps: int = EMISSION_STEPS) -> bool:
        """Return True if the data satisfies all conditions. Raise FilterBudgetError if that takes more steps."""
        return self._condition.holds([data], Budget(steps))

    def mismatch(self, data: Mapping[str, Any]) -> Mismatch | None:
        """Return the first condition that the data does not satisfy, as text, or None if it satisfies all.

        Raise FilterBudgetError as ``holds`` does.
        """
        if self.holds(data):
            return None
        # Each level evaluates its conditions again to find the first one that does not hold.
        return self._condition.mismatch([data], "data", Budget((MAX_FILTER_DEPTH + 2) * EMISSION_STEPS))

    def uses(self) -> Iterator[Use]:
        """Yield the operators of the filter with their fields."""
        return self._condition.uses(())


class _Condition(ABC):
    """A condition on all values at a path. Paths through lists lead to several values, each path to at least one."""

    @abstractmethod
    def holds(self, values: Sequence[Any], budget: Budget) -> bool: ...

    @abstractmethod
    def mismatch(self, values: Sequence[Any], path: str, budget: Budget) -> Mismatch:
        """Return the first unsatisfied condition. Must be called only if the condition does not hold."""

    @abstractmethod
    def uses(self, path: tuple[str, ...]) -> Iterator[Use]: ...


@dataclass(frozen=True, slots=True)
class _Operation(_Condition):
    """An operator, satisfied by one of the values. A negative one must be satisfied by all of them."""

    operator: BaseOperator
    operand: Any
    keys: tuple[str, ...] = ()

    def holds(self, values: Sequence[Any], budget: Budget) -> bool:
        if len(values) == 1:
            return self._holds(values[0], budget)
        satisfied = (self._holds(value, budget) for value in values)
        return all(satisfied) if self.operator.is_negative(self.operand) else any(satisfied)

    def mismatch(self, values: Sequence[Any], path: str, budget: Budget) -> Mismatch:
        found = next(value for value in values if not self._holds(value, budget))
        return Mismatch(path, found, self.operator.wanted(self.operand))

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        yield Use(path, self.operator, self.operand, self.keys)

    def _holds(self, value: Any, budget: Budget) -> bool:
        budget.spend(1 + self.operator.steps(value, self.operand))
        return self.operator.holds(value, self.operand)


@dataclass(frozen=True, slots=True)
class _Field(_Condition):
    name: str
    condition: _Condition

    def holds(self, values: Sequence[Any], budget: Budget) -> bool:
        return self.condition.holds(self._of(values, budget), budget)

    def mismatch(self, values: Sequence[Any], path: str, budget: Budget) -> Mismatch:
        return self.condition.mismatch(self._of(values, budget), f"{path}.{self.name}", budget)

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        return self.condition.uses((*path, self.name))

    def _of(self, values: Sequence[Any], budget: Budget) -> Sequence[Any]:
        """Return the values of the field, also those in the items of lists."""
        name = self.name
        if len(values) == 1 and isinstance(values[0], dict):
            return (values[0].get(name, MISSING),)
        found: list[Any] = []
        for value in values:
            items = (value or [MISSING]) if isinstance(value, list) else [value]
            budget.spend(len(items))
            found += [item.get(name, MISSING) if isinstance(item, dict) else MISSING for item in items]
        return found


@dataclass(frozen=True, slots=True)
class _All(_Condition):
    conditions: Sequence[_Condition]

    def holds(self, values: Sequence[Any], budget: Budget) -> bool:
        return all(condition.holds(values, budget) for condition in self.conditions)

    def mismatch(self, values: Sequence[Any], path: str, budget: Budget) -> Mismatch:
        first = next(condition for condition in self.conditions if not condition.holds(values, budget))
        return first.mismatch(values, path, budget)

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        for condition in self.conditions:
            yield from condition.uses(path)


class _Any(_All):
    def holds(self, values: Sequence[Any], budget: Budget) -> bool:
        return any(condition.holds(values, budget) for condition in self.conditions)

    def mismatch(self, values: Sequence[Any], path: str, budget: Budget) -> Mismatch:
        first = self.conditions[0].mismatch(values, path, budget)
        more = _("%(wanted)s (or another of %(number)d alternatives)")
        return first._replace(wanted=more % {"wanted": first.wanted, "number": len(self.conditions)})


@dataclass(frozen=True, slots=True)
class _Not(_Condition):
    condition: _Condition
    source: Any

    def holds(self, values: Sequence[Any], budget: Budget) -> bool:
        return not self.condition.holds(values, budget)

    def mismatch(self, values: Sequence[Any], path: str, budget: Budget) -> Mismatch:
        wanted = _("anything that does not match %(filter)s") % {"filter": quoted(self.source)}
        return Mismatch(path, values[0], wanted)

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        for use in self.condition.uses(path):
            yield use._replace(is_negated=not use.is_negated)


class _Parser:
    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._number = 0

    def parse(self, source: Any, path: tuple[str, ...], keys: tuple[str, ...]) -> _Condition:
        """Return the condition. ``path`` has the enclosing fields; ``keys`` has all enclosing keys, for messages."""
        if len(keys) > MAX_FILTER_DEPTH:
            raise _invalid(keys, _("is nested too deeply; at most %(most)d levels") % {"most": MAX_FILTER_DEPTH})
        if not isinstance(source, dict):
            return self._operation("$eq", source, keys, keys)
        if not source:
            raise _invalid(keys, _("is empty; name a field and a condition"))
        parts = [self._part(key, value, path, (*keys, key)) for key, value in source.items()]
        return parts[0] if len(parts) == 1 else _All(parts)

    def _part(self, key: str, value: Any, path: tuple[str, ...], keys: tuple[str, ...]) -> _Condition:
        if key in ("$and", "$or"):
            if not isinstance(value, list) or not value:
                raise _invalid(keys, _("must be a list of conditions"))
            parts = [self._inner(item, path, (*keys[:-1], f"{key}[{index}]")) for index, item in enumerate(value)]
            return _All(parts) if key == "$and" else _Any(parts)
        if key == "$not":
            return _Not(self._inner(value, path, keys), value)
        if key.startswith("$"):
            if not path:
                raise _invalid(keys, _('must be inside a field, as in {"amount": {"$gt": 100}}'))
            return self._operation(key, value, keys, keys[:-1])
        return _Field(key, self.parse(value, (*path, key), keys))

    def _inner(self, value: Any, path: tuple[str, ...], keys: tuple[str, ...]) -> _Condition:
        if not isinstance(value, dict):
            raise _invalid(keys, _("must be an object"))
        return self.parse(value, path, keys)

    def _operation(self, name: str, operand: Any, keys: tuple[str, ...], field: tuple[str, ...]) -> _Condition:
        self._number += 1
        if self._number > MAX_CONDITIONS:
            raise _invalid(keys, _("exceeds the limit of %(most)d conditions") % {"most": MAX_CONDITIONS})
        operator = self._operators.get(name)
        if operator is None:
            known = ", ".join([*COMBINING, *self._operators])
            raise _invalid(keys, _("isn't an operator; the operators are %(known)s") % {"known": known})
        if problem := operator.problem(operand):
            raise _invalid(keys, problem)
        return _Operation(operator, operand, field)


def _invalid(keys: Sequence[str], problem: str) -> InvalidFilterError:
    return InvalidFilterError(json_data.dotted(keys), problem)
