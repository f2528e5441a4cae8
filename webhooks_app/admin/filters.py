"""Filters whose choices are known without a look at the rows."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ..event_types import INTERNAL_EVENT_TYPES, registry


class EventTypeFilter(admin.SimpleListFilter):
    """By event type, from the catalogue: asking the table would read all of it."""

    title = _("event type")
    parameter_name = "event_type"
    lookup = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(event_type.name, event_type.name) for event_type in (*registry, *INTERNAL_EVENT_TYPES)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.lookup: self.value()}) if self.value() else queryset


class EventTypeOfDeliveryFilter(EventTypeFilter):
    lookup = "event__type"
