"""The schema of an event type as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.utils.translation import gettext

from ..models.fields import compact_json

MAX_LEVELS = 5
"""Levels of nested objects that have rows. Data models can contain themselves."""

MAX_EXAMPLE = 60


class Field(NamedTuple):
    """A field of the data. ``name`` is its path: ``customer.country``, and ``items[].sku`` within a list."""

    name: str
    type: str
    is_required: bool
    meaning: str
    example: str


def fields_of(schema: Mapping[str, Any], example: Any) -> list[Field]:
    """Return the fields of a JSON Schema of an object, nested ones included, with their values in an example."""
    return list(_fields(schema, example, schema.get("$defs", {}), "", MAX_LEVELS))


def _fields(
    schema: Mapping[str, Any], example: Any, defs: Mapping[str, Any], prefix: str, levels: int
) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, declared in schema.get("properties", {}).items() if levels else ():
        resolved = _resolved(declared, defs)
        value = example.get(name) if isinstance(example, Mapping) else None
        is_nested, path = isinstance(value, Mapping | list), f"{prefix}{name}"
        shown = "" if value is None or is_nested else compact_json(value)[:MAX_EXAMPLE]
        meaning = declared.get("description", resolved.get("description", ""))
        yield Field(path, _type_of(declared, defs), name in required, meaning, shown)
        if resolved.get("type") == "array":
            resolved, path = _resolved(resolved.get("items", {}), defs), f"{path}[]"
            value = value[0] if isinstance(value, list) and value else None
        yield from _fields(resolved, value, defs, f"{path}.", levels - 1)


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a reference stands for, and of alternatives the first that is not null."""
    if "$ref" in schema:
        return _resolved(defs.get(schema["$ref"].rpartition("/")[2], {}), defs)
    others = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return _resolved(others[0], defs) if others else schema


def _type_of(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """Return the type in the words of JSON Schema."""
    if "anyOf" in schema:
        return " | ".join(_type_of(each, defs) for each in schema["anyOf"])
    resolved = _resolved(schema, defs)
    if "enum" in resolved:
        return " | ".join(map(compact_json, resolved["enum"]))
    if resolved.get("type") == "array":
        return gettext("list of %(type)s") % {"type": _type_of(resolved.get("items", {}), defs)}
    return str(resolved.get("format") or resolved.get("type") or gettext("any"))
