"""Unsaved events: valid data, an owner, a time, and the envelope that contains them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from ..conf import settings
from ..database.clock import now
from ..event_types import EventType
from ..exceptions import InvalidEventDataError
from ..models import Event
from ..models.emission import MAX_KEY_LENGTH, MAX_REFERENCE_LENGTH, MAX_REFERENCES
from ..models.order import MAX_ORDERING_KEY_LENGTH
from ..owners import owners
from ..protocol.envelope import encode
from ..reasons import ReasonText
from .plain_data import plain_data

if TYPE_CHECKING:
    from pydantic import BaseModel

    EventData = Mapping[str, Any] | BaseModel


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
    """Return an unsaved event, with its references. Raises InvalidEventDataError or InvalidOwnerError."""
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
    body = encode(id=event_id, type=name, created=created_at, data=valid_data)
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
