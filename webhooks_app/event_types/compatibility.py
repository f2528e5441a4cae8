"""Changes of a JSON Schema that break receivers of the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

Schema = Mapping[str, Any]

_WORDS = frozenset({"$schema", "$defs", "title", "description", "examples", "default"})
_STRUCTURE = frozenset({"properties", "required", "items", "anyOf"})


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
