"""The event catalogue as JSON, the format for comparing versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..event_types import EventType, breaking_changes
from ..exceptions import InvalidCatalogueError


class Item(TypedDict):
    """An event type of a catalogue; additional keys are for people."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    name: str
    schema: dict[str, Any]


class Document(TypedDict):
    event_types: Sequence[Item]


_DOCUMENT = TypeAdapter(Document)


class Comparison(NamedTuple):
    """Differences between a catalogue and an earlier version of it, one sentence each."""

    breaking: list[str]
    added: list[str]
    """Names of the event types that the earlier version lacks."""


def document(event_types: Iterable[EventType[Any]]) -> Document:
    """Return the catalogue as JSON: each type's name, group, description, example and JSON Schema (2020-12)."""
    return _DOCUMENT.validate_python({"event_types": [_described(event_type) for event_type in event_types]})


def read(path: Path) -> Document:
    """Read a catalogue from a file. Raises InvalidCatalogueError, which names the problem."""
    try:
        document: Document = _DOCUMENT.validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidCatalogueError(f"{path} could not be read: {error.strerror}.") from error
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        place = ".".join(map(str, detail["loc"])) or "the document"
        raise InvalidCatalogueError(
            f"{path} is not an event catalogue: {place}: {detail['msg']}. "
            "`manage.py export_event_catalogue` writes a catalogue."
        ) from None
    return document


def compare(old: Document, new: Document) -> Comparison:
    """Compare two catalogues. Additional types and fields are compatible; see `breaking_changes` for the rules."""
    schemas = {item["name"]: item["schema"] for item in new["event_types"]}
    breaking = []
    for item in old["event_types"]:
        name = item["name"]
        if name in schemas:
            breaking += [f"{name}: {change}" for change in breaking_changes(item["schema"], schemas[name])]
        else:
            breaking.append(f"{name}: the event type was removed.")
    known = {item["name"] for item in old["event_types"]}
    return Comparison(breaking, [name for name in schemas if name not in known])


def _described(event_type: EventType[Any]) -> dict[str, Any]:
    return {
        "name": event_type.name,
        "group": event_type.group,
        "description": event_type.description,
        "example": event_type.example,
        "schema": event_type.json_schema(),
    }
