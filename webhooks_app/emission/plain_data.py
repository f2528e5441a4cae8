"""Replacement of values that serialization cannot check or cannot encode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.utils.functional import Promise
from pydantic import BaseModel

from ..exceptions import InvalidEventDataError
from ..protocol.json_data import MAX_DEPTH, Path, dotted

if TYPE_CHECKING:
    from .events import EventData


def plain_data(event_type: str, data: EventData, *, max_items: int) -> EventData:
    """Return the data with lazy translations as text and iterators as lists; the same object if there are none.

    Raises InvalidEventDataError for an iterator of more than ``max_items``.
    """
    plain = _Plain(event_type, max_items)
    if isinstance(data, BaseModel):
        changed = {name: new for name, value in data if (new := plain(value, (name,))) is not value}
        return data.model_copy(update=changed) if changed else data
    plain_value: EventData = plain(data, ())
    return plain_value


class _Plain:
    def __init__(self, event_type: str, max_items: int) -> None:
        self._event_type = event_type
        self._max_items = max_items

    def __call__(self, value: Any, path: Path) -> Any:
        if value is None or isinstance(value, (str, int)) or len(path) > MAX_DEPTH:  # deeper nesting is refused later
            return value
        if isinstance(value, Promise):
            return str(value)
        if isinstance(value, Mapping):
            return self._plain_mapping(value, path)
        if isinstance(value, Iterator) and not type(value).__module__.startswith("pydantic_core"):
            value = self._items(value, path)
        if type(value) in (list, tuple):
            items = [self(item, (*path, place)) for place, item in enumerate(value)]
            is_same = all(new is old for new, old in zip(items, value, strict=True))
            return value if is_same else type(value)(items)
        return value

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
