"""The registered event types by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..exceptions import InvalidEventTypeError, UnknownEventTypeError, UnregisteredEventTypeError
from .base import EventType
from .operational import INTERNAL_NAMES


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
        """Add event types, or none of them. Raise InvalidEventTypeError if a name is taken or reserved."""
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
        """Remove an event type and return it. Raise UnknownEventTypeError."""
        event_type = self.get(name)
        self._by_name = {known: kept for known, kept in self._by_name.items() if known != name}
        return event_type

    def get(self, name: object) -> EventType[Any]:
        """Return the event type of this name. Raise UnknownEventTypeError with the known names."""
        found = self._find(name)
        if found is None:
            raise UnknownEventTypeError(name, self.names())
        return found

    def get_emittable(self, event_type: EventType[Any] | object) -> EventType[Any]:
        """Return a registered event type, by object or by name, that hosts can emit and accounts can subscribe to.

        Raise UnknownEventTypeError for any other, operational event types included.
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
