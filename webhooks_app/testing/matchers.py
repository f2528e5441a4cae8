"""Values that equal all values with some property, for the expected data in tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any


class Matcher:
    """Equals each value for which the function returns True; its ``repr`` describes these values."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, is_equal: Callable[[Any], object], description: str) -> None:
        self._is_equal = is_equal
        self._description = description

    def __eq__(self, other: object) -> bool:
        return bool(self._is_equal(other))

    def __repr__(self) -> str:
        return f"<{self._description}>"


def instance_of(*types: type) -> Matcher:
    """Return a value that equals all instances of these types; booleans do not count as numbers."""
    names = " or ".join(cls.__name__ for cls in types)
    return Matcher(lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool)), names)


def matching(pattern: str) -> Matcher:
    """Return a value that equals all strings that match a regular expression as a whole."""
    expression = re.compile(pattern)
    return Matcher(lambda value: isinstance(value, str) and expression.fullmatch(value), f"matching {pattern!r}")


def containing(wanted: Mapping[str, Any]) -> Matcher:
    """Return a value that equals all mappings with at least these items."""
    return Matcher(lambda value: isinstance(value, Mapping) and holds(value, wanted), f"containing {dict(wanted)!r}")


def satisfying(is_so: Callable[[Any], object], description: str = "") -> Matcher:
    """Return a value that equals all values for which the function returns a true value."""
    return Matcher(is_so, description or f"satisfying {getattr(is_so, '__name__', is_so)}")


def holds(data: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True if the data has at least these items."""
    return all(name in data and value == data[name] for name, value in wanted.items())
