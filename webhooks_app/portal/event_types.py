"""The event types: those of an account, and a public catalogue without a login.

The catalogue has URLs of its own: ``path("event-types/", include("webhooks_app.portal.catalogue"))``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import known_signatures
from ..event_types import EventTypeRegistry
from ..exceptions import UnknownEventTypeError
from ..models.fields import compact_json
from ..models.webhook_secret import default_signatures
from ..owners import event_types_for, public_event_types
from ..pages.verification import samples_for
from .base import AccountPage, SafePage

__all__ = ["CataloguePage", "CatalogueTypePage", "EventTypeListPage", "EventTypePage"]


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


class ListOfTypes(SafePage):
    """A list of event types with their descriptions."""

    template_name = "webhooks_app/portal/event_type_list.html"
    title = _("Event types")

    def event_types(self) -> EventTypeRegistry:
        raise NotImplementedError

    def url_of(self, name: str) -> str:
        """Return the URL of the page of an event type."""
        raise NotImplementedError

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        groups = [
            (group, [(each, self.url_of(each.name)) for each in members])
            for group, members in self.event_types().groups().items()
        ]
        return super().get_context_data(groups=groups, **kwargs)


class TypeWithSchema(SafePage):
    """An event type with its example, its schema, and code that verifies requests."""

    template_name = "webhooks_app/portal/event_type.html"

    def event_types(self) -> EventTypeRegistry:
        raise NotImplementedError

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        try:
            event_type = self.event_types().get(self.kwargs["name"])
        except UnknownEventTypeError:
            raise Http404 from None
        return super().get_context_data(
            title=event_type.name,
            event_type=event_type,
            example=json.dumps(event_type.example, indent=2, ensure_ascii=False),
            fields=fields_of(event_type.json_schema(), event_type.example),
            schema=json.dumps(event_type.json_schema(), indent=2, ensure_ascii=False),
            samples=samples_for(known_signatures()[name] for name in default_signatures()),
            **kwargs,
        )


class OfAccount(AccountPage):
    """The event types that the account may subscribe to."""

    section = "event-types"

    def event_types(self) -> EventTypeRegistry:
        return event_types_for(self.owner)

    def url_of(self, name: str) -> str:
        return self.url("event-type", name)


class EventTypeListPage(OfAccount, ListOfTypes):
    """The event types that the account may subscribe to."""


class EventTypePage(OfAccount, TypeWithSchema):
    """An event type that the account may subscribe to."""


class Public(SafePage):
    """The event types of the public documentation."""

    requires_login = False

    def event_types(self) -> EventTypeRegistry:
        return public_event_types()

    def url_of(self, name: str) -> str:
        return reverse("webhooks_catalogue:event-type", args=(name,))


class CataloguePage(Public, ListOfTypes):
    """The public event types, for everybody."""


class CatalogueTypePage(Public, TypeWithSchema):
    """A public event type, for everybody."""


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
