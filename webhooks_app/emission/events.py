"""Unsaved events: valid data, an owner, a time, and the envelope that contains them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import Any

from django.utils import timezone
from django.utils.functional import Promise
from pydantic import BaseModel

from ..conf import settings
from ..database.clock import now
from ..event_types import EventType
from ..exceptions import InvalidEventDataError
from ..models import Event
from ..models.event import MAX_KEY_LENGTH, MAX_ORDERING_KEY_LENGTH, MAX_REFERENCE_LENGTH, MAX_REFERENCES
from ..owners import owners
from ..protocol.json_data import MAX_DEPTH, Path, dotted, encode_valid
from ..reasons import ReasonText

EventData = Mapping[str, Any] | BaseModel

COLLECTIONS = (list, tuple, deque, set, frozenset)


def new_event(
    event_type: EventType[Any],
    data: EventData,
    *,
    owner: Any,
    occurred_at: datetime | None = None,
    is_test: bool = False,
    references: Sequence[str] = (),
    ordering_key: str | None = None,
) -> Event:
    """Return an unsaved event, with its references. Raise InvalidEventDataError or InvalidOwnerError."""
    if owner is not None:
        owners().check(owner)
    name, max_bytes = event_type.name, settings.MAX_ENVELOPE_BYTES
    created_at = now() if occurred_at is None else occurred_at
    problems = _problems_of_options(created_at, references, ordering_key)
    try:
        valid_data = event_type.validate(plain_data(name, data, max_items=max_bytes))
    except InvalidEventDataError as error:
        raise InvalidEventDataError(name, {**error.errors, **problems}) from error.__cause__
    if problems:
        raise InvalidEventDataError(name, problems)
    event_id = str(Event._meta.pk.get_default())
    body = encode_valid(id=event_id, type=name, created=created_at, data=valid_data)
    if len(body) > max_bytes:
        problem = ReasonText("envelope_too_large", size=len(body), limit=max_bytes)
        raise InvalidEventDataError(name, {"": problem})
    event = Event(id=event_id, type=name, owner=owner, body=body.decode(), is_test=is_test, created_at=created_at)
    event.ordering_key = ordering_key
    if references or event_type.reference_fields:
        event.unsaved_references = _references(event_type, valid_data, references)
    return event


def check_key(event_type: str, key: object) -> None:
    """Raise InvalidEventDataError if this is not a valid idempotency key."""
    if problem := _problem_of_text(key, MAX_KEY_LENGTH):
        raise InvalidEventDataError(event_type, {"idempotency_key": problem})


def _problems_of_options(created_at: object, references: object, ordering_key: object) -> dict[str, str]:
    problems = _problems_of_references(references)
    if problem := _problem_of_time(created_at):
        problems["occurred_at"] = problem
    if ordering_key is not None and (problem := _problem_of_text(ordering_key, MAX_ORDERING_KEY_LENGTH)):
        problems["ordering_key"] = problem
    return problems


def _references(event_type: EventType[Any], data: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    found = list(dict.fromkeys([*given, *event_type.references(data)]))
    if found and (problems := _problems_of_references(found)):
        raise InvalidEventDataError(event_type.name, problems)
    return found


def _problems_of_references(found: Any) -> dict[str, str]:
    if isinstance(found, str):
        return {"references": "is a string; give a list of strings"}
    if not found:
        return {}
    values = list(dict.fromkeys(found))
    if len(values) > MAX_REFERENCES:
        return {"references": f"has {len(values)} values; an event has at most {MAX_REFERENCES}"}
    return {
        f"references[{index}]": problem
        for index, value in enumerate(values)
        if (problem := _problem_of_text(value, MAX_REFERENCE_LENGTH))
    }


def _problem_of_text(text: object, max_length: int) -> str:
    if not isinstance(text, str):
        return f"is of type {type(text).__name__}; give a string"
    if not 1 <= len(text) <= max_length:
        return f"has {len(text):,} characters; give 1 to {max_length}"
    return "" if text.isprintable() else "contains a character that cannot be printed"


def _problem_of_time(moment: object) -> str:
    if not isinstance(moment, datetime):
        return f"is of type {type(moment).__name__}; give an aware datetime"
    if timezone.is_naive(moment):
        return "is naive; give an aware datetime"
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return "is outside the years 1 to 9999 in UTC"
    return ""


def plain_data(event_type: str, data: EventData, *, max_items: int) -> EventData:
    """Return the data with lazy translations as text and iterators as lists; the same object if there are none.

    Raise InvalidEventDataError for an iterator of more than ``max_items``.
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
