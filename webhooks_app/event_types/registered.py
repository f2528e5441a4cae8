"""The registered event types by name, and the breaking changes between two versions of a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

from ..exceptions import InvalidEventTypeError, UnknownEventTypeError, UnregisteredEventTypeError
from .base import EventType
from .operational import INTERNAL_NAMES

_WORDS = frozenset({"$schema", "$defs", "title", "description", "examples", "default"})
_STRUCTURE = frozenset({"properties", "required", "items", "anyOf"})


class EventTypeRegistry:
    """Event types in the order of their registration. Filled at start-up, read-only afterwards."""

    def __init__(self, *event_types: EventType[Any]) -> None:
        self._by_name: dict[str, EventType[Any]] = {}
        self.register(*event_types)

    def __iter__(self) -> Iterator[EventType[Any]]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def register(self, *event_types: EventType[Any]) -> None:
        """Add event types, or none of them. Raises InvalidEventTypeError if a name is taken or reserved."""
        added = dict(self._by_name)
        for event_type in event_types:
            if event_type.name in INTERNAL_NAMES:
                raise InvalidEventTypeError(
                    f"{event_type.name} is the name of an internal message; choose another name."
                )
            if event_type.name in added:
                raise InvalidEventTypeError(
                    f"{event_type.name} is registered already; choose another name, or unregister the first."
                )
            added[event_type.name] = event_type
        self._by_name = added

    def unregister(self, name: str) -> EventType[Any]:
        """Remove an event type and return it. Raises UnknownEventTypeError."""
        event_type = self.get(name)
        self._by_name = {known: kept for known, kept in self._by_name.items() if known != name}
        return event_type

    def get(self, name: object) -> EventType[Any]:
        """Return the event type of this name. Raises UnknownEventTypeError with the known names."""
        found = self._find(name)
        if found is None:
            raise UnknownEventTypeError(name, self.names())
        return found

    def get_emittable(self, event_type: EventType[Any] | object) -> EventType[Any]:
        """Return a registered event type, by object or by name, that hosts can emit and accounts can subscribe to.

        Raises UnknownEventTypeError for any other, operational event types included.
        """
        name = event_type.name if isinstance(event_type, EventType) else event_type
        found = self._find(name)
        if isinstance(event_type, EventType) and found is not event_type:
            raise UnregisteredEventTypeError(event_type.name, self.emittable_names())
        if found is None or found.operational:
            raise UnknownEventTypeError(name, self.emittable_names())
        return found

    def is_operational(self, name: object) -> bool:
        found = self._find(name)
        return found is not None and found.operational

    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def emittable_names(self) -> tuple[str, ...]:
        """Return the names of all event types except the operational ones."""
        return tuple(name for name, event_type in self._by_name.items() if not event_type.operational)

    def _find(self, name: object) -> EventType[Any] | None:
        return self._by_name.get(name) if isinstance(name, str) else None

    def where(self, condition: Callable[[EventType[Any]], bool]) -> EventTypeRegistry:
        """Return a catalogue of those event types that satisfy the condition."""
        found = EventTypeRegistry()
        found._by_name = {name: event_type for name, event_type in self._by_name.items() if condition(event_type)}
        return found

    def groups(self) -> dict[str, tuple[EventType[Any], ...]]:
        """Return the event types by group, both in the order of registration."""
        groups: dict[str, list[EventType[Any]]] = {}
        for event_type in self:
            groups.setdefault(event_type.group, []).append(event_type)
        return {group: tuple(members) for group, members in groups.items()}

    @contextmanager
    def temporarily(self, *event_types: EventType[Any]) -> Iterator[None]:
        """Register event types within a ``with`` block; other changes made in the block are undone too."""
        before = self._by_name
        self.register(*event_types)
        try:
            yield
        finally:
            self._by_name = before


registry = EventTypeRegistry()


Schema = Mapping[str, Any]


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Return the changes that break receivers of the old data, one sentence each.

    Additional fields and new descriptions are compatible. A removed field, a field that becomes optional, and a change
    of a type or bound are not.
    """
    return list(_changes(_bare(old, old), _bare(new, new), "data"))


def _changes(old: Schema, new: Schema, path: str) -> Iterator[str]:
    if _constraints(old) != _constraints(new):
        yield f"{path} was {_constraints(old)} and is {_constraints(new)}."
        return
    yield from _changed_fields(old, new, path)
    if "items" in old:
        yield from _changes(old["items"], new.get("items", {}), f"{path}[]")
    nothing: Schema = {}
    for old_choice, new_choice in zip_longest(old.get("anyOf", []), new.get("anyOf", []), fillvalue=nothing):
        yield from _changes(old_choice, new_choice, path)


def _changed_fields(old: Schema, new: Schema, path: str) -> Iterator[str]:
    new_fields = new.get("properties", {})
    for name, field in old.get("properties", {}).items():
        if name not in new_fields:
            yield f"{path}.{name} was removed."
            continue
        if name in old.get("required", ()) and name not in new.get("required", ()):
            yield f"{path}.{name} was always present and is now optional."
        yield from _changes(field, new_fields[name], f"{path}.{name}")


def _constraints(schema: Schema) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in _STRUCTURE}


def _bare(schema: Schema, root: Schema, seen: tuple[str, ...] = ()) -> Schema:
    """Return the schema without descriptions. All references are resolved, except recursive ones."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return {"$ref": name} if name in seen else _bare(root["$defs"][name], root, (*seen, name))
    bare: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _WORDS:
            continue
        if key == "properties":
            bare[key] = {name: _bare(field, root, seen) for name, field in value.items()}
        elif isinstance(value, dict):
            bare[key] = _bare(value, root, seen)
        elif isinstance(value, list) and all(isinstance(choice, dict) for choice in value):
            bare[key] = [_bare(choice, root, seen) for choice in value]
        else:
            bare[key] = value
    return bare
