"""The event catalogue as documents for integrators: JSON, OpenAPI 3.1 and Markdown, and what breaks in a new one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .conf import retry_policy
from .event_types import INTERNAL_EVENT_TYPES, VERIFICATION, EventType
from .exceptions import InvalidCatalogueError
from .protocol.handshake import challenge_body
from .protocol.json_data import encode
from .signatures import EVENT_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER

__all__ = ["breaking_changes"]

Schema = Mapping[str, Any]

_WORDS = frozenset({"$schema", "$defs", "title", "description", "examples", "default"})
_STRUCTURE = frozenset({"properties", "required", "items", "anyOf"})

EVENT_ID = "evt_019c138fa2905be1f0d27c3384a6e91b"
_CREATED = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
_CHALLENGE = {"type": "string", "description": "The same string as in the request."}

_SIGNATURE = (
    "`sha256=` and the lower-case hexadecimal HMAC-SHA256, keyed with the webhook's secret, "
    f"of the value of `{TIMESTAMP_HEADER}`, a full stop and the raw body."
)


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


def json_document(event_types: Iterable[EventType[Any]]) -> Document:
    """Return the catalogue as JSON: each type's name, group, description, example and JSON Schema (2020-12)."""
    return _DOCUMENT.validate_python({"event_types": [_described(event_type) for event_type in event_types]})


def read(path: Path) -> Document:
    """Read a catalogue from a file. Raise InvalidCatalogueError, which names the problem."""
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


def _described(event_type: EventType[Any]) -> dict[str, Any]:
    return {
        "name": event_type.name,
        "group": event_type.group,
        "description": event_type.description,
        "example": event_type.example,
        "schema": event_type.json_schema(),
    }


def openapi_document(event_types: Iterable[EventType[Any]], *, title: str) -> dict[str, Any]:
    """Return an OpenAPI document that contains only the requests to receivers."""
    types = tuple(event_types)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "webhooks": webhooks(types),
        "components": {"schemas": schemas(types)},
    }


def webhooks(event_types: Iterable[EventType[Any]]) -> dict[str, Any]:
    """Return the ``webhooks`` section: the given types and the internal messages."""
    return {event_type.name: {"post": _operation(event_type)} for event_type in (*event_types, *INTERNAL_EVENT_TYPES)}


def schemas(event_types: Iterable[EventType[Any]]) -> dict[str, Any]:
    """Return the schema of each body by event type, and the schemas of models nested in its data."""
    found: dict[str, Any] = {}
    for event_type in (*event_types, *INTERNAL_EVENT_TYPES):
        data = event_type.json_schema(ref_template=f"#/components/schemas/{event_type.name}.{{model}}")
        del data["$schema"]
        nested = data.pop("$defs", {})
        found[event_type.name] = _body_schema(event_type, data)
        found.update({f"{event_type.name}.{model}": schema for model, schema in nested.items()})
    return found


def example(event_type: EventType[Any]) -> dict[str, Any]:
    """Return the body of a delivery of this type, as JSON."""
    if event_type is VERIFICATION:
        body = challenge_body(event_type.example["challenge"])
    else:
        body = encode(id=EVENT_ID, type=event_type.name, created=_CREATED, data=event_type.example)
    decoded: dict[str, Any] = json.loads(body)
    return decoded


def _body_schema(event_type: EventType[Any], data: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "id": {"type": "string", "pattern": "^evt_[0-9a-z]+$", "description": "Use it to detect duplicates."},
        "type": {"const": event_type.name},
        "created": {"type": "string", "format": "date-time", "description": "Time of the event, in UTC."},
        "data": data,
    }
    if event_type is VERIFICATION:
        del properties["id"], properties["created"]
    return {
        "type": "object",
        "description": event_type.description,
        "required": list(properties),
        "properties": properties,
    }


def _operation(event_type: EventType[Any]) -> dict[str, Any]:
    return {
        "summary": event_type.description,
        "tags": [event_type.group or "Events"],
        "security": [],
        "parameters": [
            _header(SIGNATURE_HEADER, {"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"}, _SIGNATURE),
            _header(TIMESTAMP_HEADER, {"type": "string", "pattern": "^[0-9]+$"}, "Unix time in seconds."),
            _header(EVENT_HEADER, {"const": event_type.name}, "The type in the body."),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{event_type.name}"},
                    "examples": {"body": {"value": example(event_type)}},
                }
            },
        },
        "responses": _responses(event_type),
    }


def _header(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": True, "description": description, "schema": schema}


def _responses(event_type: EventType[Any]) -> dict[str, Any]:
    received: dict[str, Any] = {"description": "Received. No other status confirms receipt."}
    if event_type is VERIFICATION:
        schema = {"type": "object", "required": ["challenge"], "properties": {"challenge": _CHALLENGE}}
        answer = {"schema": schema, "example": {"challenge": event_type.example["challenge"]}}
        received = {"description": "The challenge, returned.", "content": {"application/json": answer}}
    return {"200": received, "default": {"description": f"A failed attempt. {_retries_of(event_type)}"}}


def _retries_of(event_type: EventType[Any]) -> str:
    delays = [f"{delay.total_seconds():g}" for delay in retry_policy().delays]
    if event_type in INTERNAL_EVENT_TYPES and event_type is not VERIFICATION:
        return "It is not retried."
    return f"It is retried after {', '.join(delays)} seconds." if delays else "It is not retried."


def markdown_page(event_types: Iterable[EventType[Any]], *, title: str) -> str:
    """Return the page: a section for each group, with the fields and an example of each of its types."""
    groups: dict[str, list[EventType[Any]]] = {}
    for event_type in event_types:
        groups.setdefault(event_type.group or "Other", []).append(event_type)
    lines = [f"# {title}", ""]
    for group, members in groups.items():
        lines += [f"## {group}", ""]
        for event_type in members:
            lines += _section(event_type)
    return "\n".join(lines)


def _section(event_type: EventType[Any]) -> Iterator[str]:
    schema = event_type.json_schema()
    yield from (f"### `{event_type.name}`", "", event_type.description, "")
    rows = list(_rows(schema, schema, "data"))
    if rows:
        yield from ("| field | type | required | description |", "|---|---|---|---|", *rows, "")
    body = json.dumps(example(event_type), indent=2, ensure_ascii=False)
    yield from ("```json", body, "```", "")


def _rows(schema: Schema, root: Schema, path: str, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a table row for each field, including the fields of nested objects and of objects in lists."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        is_required = "yes" if name in required else "no"
        description = _cell(field.get("description", ""))
        yield f"| `{path}.{name}` | {_cell(_type(field, root))} | {is_required} | {description} |"
        for inner, suffix in _objects(field, root):
            reference = json.dumps(inner, sort_keys=True)
            if reference not in seen:
                yield from _rows(inner, root, f"{path}.{name}{suffix}", (*seen, reference))


def _objects(field: Schema, root: Schema) -> Iterator[tuple[Schema, str]]:
    field = _resolved(field, root)
    if "properties" in field:
        yield field, ""
    if "items" in field:
        yield from ((inner, f"[]{suffix}") for inner, suffix in _objects(field["items"], root))
    for choice in field.get("anyOf", ()):
        yield from _objects(choice, root)


def _type(field: Schema, root: Schema) -> str:
    field = _resolved(field, root)
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return " | ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_type(choice, root) for choice in field["anyOf"]))
    if field.get("type") == "array":
        return f"array of {_type(field.get('items', {}), root)}"
    kind = field.get("type", "any")
    kinds = kind if isinstance(kind, str) else " | ".join(kind)
    return f"{kinds} ({field['format']})" if "format" in field else kinds


def _resolved(field: Schema, root: Schema) -> Schema:
    """Return the field with a reference to a nested model replaced by the model."""
    reference = field.get("$ref")
    return {**root["$defs"][reference.rpartition("/")[2]], **field} if reference else field


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
