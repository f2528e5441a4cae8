"""Classes that implement a contract, by name or by dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import isabstract, isclass
from typing import TypeVar

T = TypeVar("T")


def load_class(name: str, base: type[T], built_in: Mapping[str, type[T]] | Mapping[str, str]) -> type[T]:
    """Return the class with a built-in name or dotted path. Raises ValueError if it is not such a subclass."""
    found: object = built_in.get(name, name)
    if isinstance(found, str):
        found = _import(found)
    if isclass(found) and issubclass(found, base) and not isabstract(found):
        return found
    raise ValueError(f"{name!r} is not a subclass of {base.__name__} that can be instantiated")


def _import(path: str) -> object:
    module_name, _, class_name = path.rpartition(".")
    try:
        found: object = getattr(import_module(module_name), class_name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ValueError(f"{path!r} cannot be imported ({error})") from error
    return found
