"""Filters whose choices are known without a look at the rows.

``is_by_index`` says of a filter that an index has its rows in a row; others are bounded in what they look at.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..event_types import INTERNAL_EVENT_TYPES, VERIFICATION, registry
from ..ids import first_id_at
from ..models import Delivery, DeliveryAttempt


class StateFilter(admin.ChoicesFieldListFilter):
    """By the state of deliveries, some of which an index lists."""

    @property
    def is_by_index(self) -> bool:
        values: Any = self.lookup_val or ()
        return len(values) == 1 and Delivery.objects.is_listed(values[0])


class EventTypeFilter(admin.SimpleListFilter):
    """By event type, from the catalogue: asking the table would read all of it."""

    title = _("event type")
    parameter_name = "event_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(event_type.name, event_type.name) for event_type in (*registry, *INTERNAL_EVENT_TYPES)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(type=self.value()) if self.value() else queryset


class EventTypeOfDeliveryFilter(EventTypeFilter):
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == VERIFICATION.name:
            return queryset.filter(kind=Delivery.Kind.VERIFICATION)
        return queryset.filter(event__type=self.value()) if self.value() else queryset


class ResultFilter(admin.SimpleListFilter):
    """By what came of the last attempt."""

    title = _("last result")
    parameter_name = "result"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(DeliveryAttempt.Result.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(last_result=self.value()) if self.value() else queryset


class CreatedFilter(admin.SimpleListFilter):
    """By when a row was made, which its identifier tells."""

    title = _("time")
    parameter_name = "created"
    is_by_index = True
    spans = {  # noqa: RUF012
        "hour": (_("Past hour"), timedelta(hours=1)),
        "day": (_("Past 24 hours"), timedelta(days=1)),
        "week": (_("Past 7 days"), timedelta(days=7)),
        "month": (_("Past 30 days"), timedelta(days=30)),
        "before_day": (_("More than a day ago"), timedelta(days=1)),
        "before_week": (_("More than 7 days ago"), timedelta(days=7)),
        "before_month": (_("More than 30 days ago"), timedelta(days=30)),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, label) for name, (label, _span) in self.spans.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name = self.value()
        if name not in self.spans:
            return queryset
        pk: Any = queryset.model._meta.pk
        edge = first_id_at(pk.prefix, timezone.now() - self.spans[name][1])
        return queryset.filter(**{"pk__lt" if name.startswith("before") else "pk__gte": edge})
