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
from .base import MISSING, BaseOperator, shown

MAX_BYTES = 4096
MAX_DEPTH = 8
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
        return _("%(path)s is %(found)s, the filter requires %(wanted)s") % {**values, "found": shown(self.found)}


class Use(NamedTuple):
    """An operator in a filter, on the field at a path."""

    path: tuple[str, ...]
    operator: BaseOperator
    operand: Any


class Filter:
    """A parsed filter."""

    def __init__(self, source: Any, operators: Operators) -> None:
        """Parse a filter. Raises InvalidFilterError, which names the path of the problem."""
        if not isinstance(source, dict):
            raise InvalidFilterError("", _("must be an object"))
        size = len(json.dumps(source, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))
        if size > MAX_BYTES:
            raise InvalidFilterError("", _("has %(size)d bytes; at most %(most)d") % {"size": size, "most": MAX_BYTES})
        for path, problem in json_data.problems(source).items():
            raise InvalidFilterError(path, problem)
        self._condition = _Parser(operators).parse(source, (), ())

    def mismatch(self, data: Mapping[str, Any]) -> Mismatch | None:
        """Return the first unsatisfied condition; None if the data satisfies all."""
        return self._condition.mismatch(data, "data")

    def uses(self) -> Iterator[Use]:
        """Yield the operators of the filter with their fields."""
        return self._condition.uses(())


class _Condition(ABC):
    @abstractmethod
    def mismatch(self, value: Any, path: str) -> Mismatch | None: ...

    @abstractmethod
    def uses(self, path: tuple[str, ...]) -> Iterator[Use]: ...


@dataclass(frozen=True, slots=True)
class _Operation(_Condition):
    operator: BaseOperator
    operand: Any

    def mismatch(self, value: Any, path: str) -> Mismatch | None:
        if self.operator.holds(value, self.operand):
            return None
        return Mismatch(path, value, self.operator.wanted(self.operand))

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        yield Use(path, self.operator, self.operand)


@dataclass(frozen=True, slots=True)
class _Field(_Condition):
    name: str
    condition: _Condition

    def mismatch(self, value: Any, path: str) -> Mismatch | None:
        path = f"{path}.{self.name}"
        if not isinstance(value, list):
            return self.condition.mismatch(self._of(value), path)
        mismatches = [self.condition.mismatch(self._of(item), path) for item in value]
        if None in mismatches:
            return None
        return mismatches[0] if mismatches else self.condition.mismatch(MISSING, path)

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        return self.condition.uses((*path, self.name))

    def _of(self, value: Any) -> Any:
        return value.get(self.name, MISSING) if isinstance(value, dict) else MISSING


@dataclass(frozen=True, slots=True)
class _All(_Condition):
    conditions: Sequence[_Condition]

    def mismatch(self, value: Any, path: str) -> Mismatch | None:
        mismatches = (condition.mismatch(value, path) for condition in self.conditions)
        return next((found for found in mismatches if found is not None), None)

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        for condition in self.conditions:
            yield from condition.uses(path)


class _Any(_All):
    def mismatch(self, value: Any, path: str) -> Mismatch | None:
        first = None
        for condition in self.conditions:
            found = condition.mismatch(value, path)
            if found is None:
                return None
            first = first or found
        assert first is not None
        more = _("%(wanted)s (or another of %(number)d alternatives)")
        return first._replace(wanted=more % {"wanted": first.wanted, "number": len(self.conditions)})


@dataclass(frozen=True, slots=True)
class _Not(_Condition):
    condition: _Condition
    source: Any

    def mismatch(self, value: Any, path: str) -> Mismatch | None:
        if self.condition.mismatch(value, path) is not None:
            return None
        return Mismatch(path, value, _("anything that does not match %(filter)s") % {"filter": shown(self.source)})

    def uses(self, path: tuple[str, ...]) -> Iterator[Use]:
        return self.condition.uses(path)


class _Parser:
    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._number = 0

    def parse(self, source: Any, path: tuple[str, ...], keys: tuple[str, ...]) -> _Condition:
        """Return the condition. ``path`` has the enclosing fields; ``keys`` has all enclosing keys, for messages."""
        if len(keys) > MAX_DEPTH:
            raise _invalid(keys, _("is nested too deeply; at most %(most)d levels") % {"most": MAX_DEPTH})
        if not isinstance(source, dict):
            return self._operation("$eq", source, keys)
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
            return self._operation(key, value, keys)
        return _Field(key, self.parse(value, (*path, key), keys))

    def _inner(self, value: Any, path: tuple[str, ...], keys: tuple[str, ...]) -> _Condition:
        if not isinstance(value, dict):
            raise _invalid(keys, _("must be an object"))
        return self.parse(value, path, keys)

    def _operation(self, name: str, operand: Any, keys: tuple[str, ...]) -> _Condition:
        self._number += 1
        if self._number > MAX_CONDITIONS:
            raise _invalid(keys, _("exceeds the limit of %(most)d conditions") % {"most": MAX_CONDITIONS})
        operator = self._operators.get(name)
        if operator is None:
            known = ", ".join([*COMBINING, *self._operators])
            raise _invalid(keys, _("is no operator; the operators are %(known)s") % {"known": known})
        if problem := operator.problem(operand):
            raise _invalid(keys, problem)
        return _Operation(operator, operand)


def _invalid(keys: Sequence[str], problem: str) -> InvalidFilterError:
    return InvalidFilterError(json_data.dotted(keys), problem)
