"""The check of a filter against the data models of event types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from ..exceptions import InvalidFilterError
from ..protocol.json_data import dotted
from .matching import Filter, Use

Schema = Mapping[str, Any]

NUMERIC = frozenset({"integer", "number"})


def check_fields(checked: Filter, schemas: Mapping[str, Schema]) -> None:
    """Raise InvalidFilterError for an unknown field, and for an operand that no field of its type can match.

    ``schemas`` are the JSON Schemas of the data by event type.
    """
    for use in checked.uses():
        found = {name: list(_at(schema, use.path, schema)) for name, schema in schemas.items()}
        if not any(found.values()):
            raise InvalidFilterError(dotted(use.path), _missing(use.path, schemas))
        _check_types(use, [_types(schema) for fields in found.values() for schema in fields])


def _check_types(use: Use, types: Sequence[frozenset[str]]) -> None:
    wanted = use.operator.types_for(use.operand)
    if not wanted or any(not found or found & wanted for found in types):
        return
    found = ", ".join(sorted(frozenset().union(*types)))
    path = dotted((*use.path, use.operator.name))
    raise InvalidFilterError(path, _("can match nothing: the type of the field is %(types)s") % {"types": found})


def _at(schema: Schema, path: Sequence[str], root: Schema) -> Iterator[Schema]:
    """Yield the schemas of a field; an empty schema if the model leaves it open."""
    schema = _resolved(schema, root)
    for choice in schema.get("anyOf", ()):
        yield from _at(choice, path, root)
    if "anyOf" in schema:
        return
    if not path:
        yield {**schema, "items": _resolved(schema.get("items", {}), root)} if "items" in schema else schema
        return
    name, rest = path[0], path[1:]
    if "items" in schema:
        yield from _at(schema["items"], path, root)
    elif name in schema.get("properties", {}):
        yield from _at(schema["properties"][name], rest, root)
    elif further := schema.get("additionalProperties"):
        yield from _at(further if isinstance(further, dict) else {}, rest, root)
    elif not schema.keys() - {"title", "description", "default", "examples"}:
        yield {}  # any value at all


def _types(schema: Schema) -> frozenset[str]:
    """Return the JSON types of a field's values, with those of a list's items; empty for any type."""
    if "const" in schema or "enum" in schema or "type" not in schema:
        return frozenset()
    types = frozenset({schema["type"]} if isinstance(schema["type"], str) else schema["type"])
    if types & NUMERIC:
        types |= NUMERIC
    if "array" not in types:
        return types
    items = _types(schema.get("items", {}))
    return types | items if items else frozenset()


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Return a schema in which the reference to a nested model is resolved."""
    reference = schema.get("$ref")
    return {**root["$defs"][reference.rpartition("/")[2]], **schema} if reference else schema


def _missing(path: Sequence[str], schemas: Mapping[str, Schema]) -> str:
    depth, names = len(path), set[str]()
    while depth and not names:
        depth -= 1
        parents = [found for schema in schemas.values() for found in _at(schema, path[:depth], schema)]
        names = {name for found in parents for name in found.get("items", found).get("properties", {})}
    place = dotted(("data", *path[:depth]))
    values = {"types": ", ".join(schemas), "place": place, "fields": ", ".join(sorted(names))}
    return _("is not a field of %(types)s; the fields of %(place)s are %(fields)s") % values
