"""The event catalogue as a Markdown page for integrators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..event_types import EventType
from .openapi import example

Schema = Mapping[str, Any]


def page(event_types: Iterable[EventType[Any]], *, title: str) -> str:
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
