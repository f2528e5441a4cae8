"""The event types: those of an account, and a public catalogue without a login.

The catalogue has URLs of its own: ``path("event-types/", include("webhooks_app.portal.catalogue"))``.
"""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from ..conf import known_signatures
from ..event_types import EventTypeRegistry
from ..exceptions import UnknownEventTypeError
from ..models.webhook_secret import default_signatures
from ..owners import event_types_for, public_event_types
from ..pages.schema import fields_of
from ..pages.verification import samples_for
from .base import AccountPage, SafePage

__all__ = ["CataloguePage", "CatalogueTypePage", "EventTypeListPage", "EventTypePage"]


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
