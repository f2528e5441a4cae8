"""Implementations of contracts, by name: the built-in ones, and those that settings add by dotted path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from inspect import isabstract, isclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MAX_CHOICE_NAME_LENGTH = 40
"""Maximum length of an implementation's name, which is stored."""


class Implementations(Generic[T]):
    """The implementations of one contract, by name.

    A built-in one is a class, or the dotted path of a class that is imported only if it is chosen. Names that others
    must not have are ``reserved``, in addition to those of built-in classes. ``find_problem`` returns the reason why
    a class cannot be used, or "".
    """

    def __init__(
        self,
        base: type[T],
        built_in: Mapping[str, type[T]] | Mapping[str, str],
        *,
        reserved: Collection[str] = (),
        find_problem: Callable[[type[Any]], str] = lambda found: "",
    ) -> None:
        self.base = base
        self.built_in: Mapping[str, type[T] | str] = MappingProxyType(dict(built_in))
        self._reserved = reserved
        self._find_problem = find_problem
        self._have_names = "name" in base.__annotations__
        self.one = lru_cache(maxsize=32)(self._one)
        self.named = lru_cache(maxsize=32)(self._named)

    def load(self, name: str) -> type[T]:
        """Return the class with a built-in name or dotted path. Raise ValueError if it is not an implementation."""
        found: Any = self.built_in.get(name, name)
        if isinstance(found, str):
            found = _imported(found)
        if not isclass(found) or not issubclass(found, self.base):
            raise ValueError(f"{name!r} is not a subclass of {self.base.__name__}")
        implementation: Any = found
        if isabstract(found):
            missing = ", ".join(sorted(implementation.__abstractmethods__))
            raise ValueError(f"{name!r} does not implement {missing}")
        return found

    def _one(self, name: str) -> T:
        """Return the process's instance with this name or dotted path. Raise ValueError as ``load``."""
        return self.load(name)()

    def _named(self, names: Sequence[str]) -> Mapping[str, T]:
        """Return instances by their names, from a tuple of built-in names and dotted paths. Raise as ``load``."""
        found: list[Any] = [self.load(name) for name in names]
        return MappingProxyType({each.name: each() for each in found})

    def problem(self, name: str) -> str:
        """Return the reason why a built-in name or dotted path cannot be used; "" if it can."""
        try:
            found = self.load(name)
            return self._problem_of_name(found) or self._find_problem(found)
        except Exception as error:  # noqa: BLE001 - importing a module may raise anything
            return str(error)

    def problem_of_all(self, names: Sequence[str]) -> str:
        """Return the first reason why these cannot be used together; "" if they can."""
        if problem := next(filter(None, map(self.problem, names)), ""):
            return problem
        try:
            return "two entries have the same name" if len(self.named(tuple(names))) < len(names) else ""
        except Exception as error:  # noqa: BLE001 - so may making an instance
            return str(error)

    def _problem_of_name(self, found: Any) -> str:
        if not self._have_names:
            return ""
        name = getattr(found, "name", None)
        if not (isinstance(name, str) and 1 <= len(name) <= MAX_CHOICE_NAME_LENGTH):
            return (
                f"{found.__qualname__} has no name; set its attribute name to 1 to {MAX_CHOICE_NAME_LENGTH} characters"
            )
        same = self.built_in.get(name)
        if name in self._reserved or (isinstance(same, type) and same is not found):
            return f"{found.__qualname__} has the name {name} of a built-in one"
        return ""


def _imported(path: str) -> object:
    module_name, _, class_name = path.rpartition(".")
    try:
        found: object = getattr(import_module(module_name), class_name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ValueError(f"{path!r} cannot be imported ({error})") from error
    return found
