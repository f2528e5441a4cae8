"""Replacement of values that serialization cannot check or cannot encode."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.utils.functional import Promise
from pydantic import BaseModel

from ..exceptions import InvalidEventDataError
from ..protocol.json_data import MAX_DEPTH, Path, dotted

if TYPE_CHECKING:
    from .events import EventData

COLLECTIONS = (list, tuple, deque, set, frozenset)


def plain_data(event_type: str, data: EventData, *, max_items: int) -> EventData:
    """Return the data with lazy translations as text and iterators as lists; the same object if there are none.

    Raises InvalidEventDataError for an iterator of more than ``max_items``.
    """
    plain = _Plain(event_type, max_items)
    plain_value: EventData = plain(data, ())
    return plain_value


class _Plain:
    def __init__(self, event_type: str, max_items: int) -> None:
        self._event_type = event_type
        self._max_items = max_items

    def __call__(self, value: Any, path: Path) -> Any:
        if value is None or isinstance(value, (str, int, float)) or len(path) > MAX_DEPTH:
            return value  # deeper nesting is refused later
        if isinstance(value, Promise):
            return str(value)
        if isinstance(value, Mapping):
            return self._plain_mapping(value, path)
        if isinstance(value, Iterator) and not type(value).__module__.startswith("pydantic_core"):
            value = self._items(value, path)
        if isinstance(value, COLLECTIONS):
            return self._plain_collection(value, path)
        return self._plain_object(value, path)

    def _plain_collection(self, value: Collection[Any], path: Path) -> Collection[Any]:
        items = [self(item, (*path, place)) for place, item in enumerate(value)]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items

    def _plain_object(self, value: Any, path: Path) -> Any:
        """Return a model or dataclass with plain fields, or the plain value of a member of an enumeration."""
        if isinstance(value, BaseModel):
            changed = self._plain_fields(dict(value), path)
            return value.model_copy(update=changed) if changed else value
        if isinstance(value, Enum):
            plain = self(value.value, path)
            return value if plain is value.value else plain
        if is_dataclass(value) and not isinstance(value, type):
            changed = self._plain_fields({field.name: getattr(value, field.name) for field in fields(value)}, path)
            return _with_fields(value, changed) if changed else value
        return value

    def _plain_fields(self, values: Mapping[str, Any], path: Path) -> dict[str, Any]:
        return {name: new for name, value in values.items() if (new := self(value, (*path, name))) is not value}

    def _plain_mapping(self, mapping: Mapping[Any, Any], path: Path) -> Mapping[Any, Any]:
        changed = {
            key: new
            for key, value in mapping.items()
            if (new := self(value, (*path, key if isinstance(key, str) else ""))) is not value
        }
        return {**mapping, **changed} if changed else mapping

    def _items(self, iterator: Iterator[Any], path: Path) -> list[Any]:
        items = list(islice(iterator, self._max_items + 1))
        if len(items) > self._max_items:
            problem = f"holds more than {self._max_items:,} items"
            raise InvalidEventDataError(self._event_type, {dotted(path): problem})
        return items


def _with_fields(value: Any, changed: Mapping[str, Any]) -> Any:
    """Return a copy of a dataclass instance, which may be frozen, with new values of these fields."""
    copied = copy(value)
    for name, new in changed.items():
        object.__setattr__(copied, name, new)
    return copied
