"""The check of a filter against the data models of event types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from ..exceptions import InvalidFilterError
from ..protocol.json_data import dotted
from .matching import Filter, Use
from .operators import NUMBER

Schema = Mapping[str, Any]

UNIONS = ("anyOf", "oneOf", "allOf")
"""Keywords with a list of schemas. A field or type that one of them allows is accepted."""

OTHER_KEYWORDS = frozenset(
    {
        *("patternProperties", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "contains"),
        *("if", "then", "else", "not", "$dynamicRef"),
    }
)
"""Keywords that are not evaluated. A schema with one of them allows any field."""


def check_fields(checked: Filter, schemas: Mapping[str, Schema]) -> None:
    """Raise InvalidFilterError for an unknown field, and for an operand that no field of its type can match.

    ``schemas`` are the JSON Schemas of the data by event type.
    """
    for use in checked.uses():
        found = {name: list(_at(schema, use.path, schema)) for name, schema in schemas.items()}
        if not any(found.values()):
            raise InvalidFilterError(dotted(use.keys), _missing(use.path, schemas))
        if not use.is_negated:
            _check_types(use, [_types(field, schemas[name]) for name, fields in found.items() for field in fields])


def _check_types(use: Use, types: Sequence[frozenset[str]]) -> None:
    wanted = use.operator.types_for(use.operand)
    if not wanted or any(not found or found & wanted for found in types):
        return
    found = ", ".join(sorted(frozenset().union(*types)))
    path = dotted((*use.keys, use.operator.name))
    raise InvalidFilterError(path, _("can match nothing: the type of the field is %(types)s") % {"types": found})


def _at(schema: Any, path: Sequence[str], root: Schema, seen: frozenset[str] = frozenset()) -> Iterator[Schema]:
    """Yield the schemas of a field, without unions and references; an empty schema if the model leaves it open."""
    for part, references in _parts(schema, root, seen):
        if not path:
            yield part
        elif items := _items(part):
            for item in items:
                yield from _at(item, path, root, references)
        elif path[0] in part.get("properties", {}):
            yield from _at(part["properties"][path[0]], path[1:], root)
        elif further := part.get("additionalProperties"):
            yield from _at(further, path[1:], root)
        elif _is_open(part):
            yield {}


def _parts(schema: Any, root: Schema, seen: frozenset[str]) -> Iterator[tuple[Schema, frozenset[str]]]:
    """Yield the schemas of a union, each with the references on the way, which end at a recursive type."""
    schema = schema if isinstance(schema, Mapping) else {}  # true allows anything
    if reference := schema.get("$ref"):
        if reference not in seen:
            named = root.get("$defs", {}).get(reference.rpartition("/")[2], {})
            rest = {word: value for word, value in schema.items() if word != "$ref"}
            yield from _parts({**rest, **named}, root, seen | {reference})
        return
    choices = [choice for word in UNIONS for choice in schema.get(word, ())]
    for choice in choices:
        yield from _parts(choice, root, seen)
    if not choices or "properties" in schema:
        yield schema, seen


def _items(schema: Schema) -> list[Any]:
    """Return the schemas of a list's items."""
    return [*schema.get("prefixItems", ()), *([schema["items"]] if "items" in schema else ())]


def _is_open(schema: Schema) -> bool:
    """Return True if any field may be in the value, by the keywords that this check understands."""
    if schema.keys() & OTHER_KEYWORDS or not schema.keys() & {"type", "const", "enum", "properties"}:
        return True
    return schema.get("type") in ("object", "array") and not schema.keys() & {"properties", "additionalProperties"}


def _types(schema: Schema, root: Schema) -> frozenset[str]:
    """Return the JSON types of a field's values, with those of a list's items; empty for any type."""
    types = _own_types(schema)
    if "array" not in types:
        return types
    items = [_own_types(item) for each in _items(schema) for item in _at(each, (), root)]
    return types.union(*items) if items and all(items) and "array" not in frozenset().union(*items) else frozenset()


def _own_types(schema: Schema) -> frozenset[str]:
    if "const" in schema or "enum" in schema or "type" not in schema:
        return frozenset()
    types = frozenset({schema["type"]} if isinstance(schema["type"], str) else schema["type"])
    return types | NUMBER if types & NUMBER else types


def _missing(path: Sequence[str], schemas: Mapping[str, Schema]) -> str:
    depth, names = len(path), set[str]()
    while depth and not names:
        depth -= 1
        names = {name for schema in schemas.values() for name in _names(schema, path[:depth])}
    place = dotted(("data", *path[:depth]))
    values = {"types": ", ".join(schemas), "place": place, "fields": ", ".join(sorted(names))}
    return _("is not a field of %(types)s; the fields of %(place)s are %(fields)s") % values


def _names(root: Schema, path: Sequence[str]) -> Iterator[str]:
    """Yield the fields of an object, or of the objects in a list."""
    for found in _at(root, path, root):
        yield from found.get("properties", {})
        for items in _items(found):
            for item in _at(items, (), root):
                yield from item.get("properties", {})
