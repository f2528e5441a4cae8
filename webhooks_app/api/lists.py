"""Filters and pages of the API's lists. Each page starts at the end of its neighbour.

A filter with an index finds its rows directly. For the others, a page scans a limited number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import django_filters
from django import forms
from django.core.validators import EMPTY_VALUES
from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.filters import BaseFilterBackend
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from ..models import Delivery, DeliveryAttempt, Event, EventReference, Webhook
from ..models.audit import Action, Via
from ..models.disclosure import UNREACHABLE
from ..models.keyset import CURSOR_PATTERN, HORIZON, WHOLE, Bounds, Cursor, Parts, created_within, read_page
from ..models.standing import Standing, conditions
from ..protocol.json_data import EARLIEST, LATEST
from ..replays.missed import still_missed
from ..routing import subscribed_to
from .fields import parse_moment

CLOCK_TOLERANCE = timedelta(minutes=1)
"""Largest tolerated difference between the clock in an identifier and the database's, which sets ``created_at``."""


class QueryFilterBackend(BaseFilterBackend):
    """Apply a view's ``filterset_class``, and document its fields."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset = self._filterset(request, queryset, view)
        if filterset is None:
            return queryset
        filtered: QuerySet[Any] = filterset.qs
        return filtered

    def bounds(
        self, request: Request, queryset: QuerySet[Any], view: Any, parts: Parts, *, is_scanned: bool = False
    ) -> Bounds:
        """Return the bounds for finding a page of the filtered rows, which consist of ``parts``.

        If there are too many parts, the page is searched among the rows of all owners. ``is_scanned`` means that the
        queryset itself has a condition without an index.
        """
        rows = queryset.model._default_manager.all() if parts.field else queryset
        filterset = self._filterset(request, rows, view)
        if filterset is not None:
            filterset.parts = parts
        if not (parts.are_too_many or is_scanned) and (filterset is None or filterset.is_indexed()):
            return Bounds(parts=parts)
        scope, horizon = (rows, HORIZON) if filterset is None else (filterset.indexed(), filterset.horizon)
        return Bounds(scope, WHOLE if parts.are_too_many else parts, min(horizon, HORIZON))

    def _filterset(self, request: Request, queryset: QuerySet[Any], view: Any) -> BoundedFilterSet | None:
        filterset_class = getattr(view, "filterset_class", None)
        if filterset_class is None:
            return None
        if blank := [name for name in filterset_class.base_filters if request.query_params.get(name) == ""]:
            raise ValidationError({name: ["Give a value, or leave the parameter out."] for name in blank})
        filterset: BoundedFilterSet = filterset_class(request.query_params, queryset=queryset, request=request)
        filterset.owner = view.owner
        if not filterset.is_valid():
            raise ValidationError({name: list(messages) for name, messages in filterset.errors.items()})
        return filterset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        filterset_class = getattr(view, "filterset_class", None)
        filters = filterset_class.base_filters.items() if filterset_class else ()
        return [
            {"name": name, "in": "query", "description": found.extra["help_text"], "schema": _schema(found.field)}
            for name, found in filters
        ]


class MomentField(forms.CharField):
    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            return min(max(parse_moment(text), EARLIEST), LATEST)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None


class MomentFilter(django_filters.Filter):
    field_class = MomentField


class CreatedFilter(MomentFilter):
    """Filter by the identifier too: it contains nearly the same time, and has an index."""

    def filter(self, qs: QuerySet[Any], value: datetime | None) -> QuerySet[Any]:
        if value is None:
            return qs
        found: QuerySet[Any] = super().filter(qs, value)
        if self.lookup_expr == "gte":
            return created_within(found, since=value - CLOCK_TOLERANCE)
        return created_within(found, until=value + CLOCK_TOLERANCE)


class BoundedFilterSet(django_filters.FilterSet):
    by_index: frozenset[str] = frozenset()
    """The names of filters with an index."""
    parts: Parts = WHOLE
    """The parts of the list, on which some indexes depend."""
    horizon = HORIZON
    """Maximum number of rows that a page examines."""
    owner: Any = None
    """The caller's owner."""

    def indexed(self) -> QuerySet[Any]:
        """Return the rows that match the filters with an index."""
        rows: QuerySet[Any] = self.queryset  # type: ignore[assignment] # views always pass one
        for name, value in self._given():
            if self.is_by_index(name, value):
                rows = self.filters[name].filter(rows, value)
        return rows

    def is_indexed(self) -> bool:
        """Return True if every given filter has an index."""
        return all(self.is_by_index(name, value) for name, value in self._given())

    def is_by_index(self, name: str, value: Any) -> bool:
        return name in self.by_index

    def _given(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in self.form.cleaned_data.items() if value not in EMPTY_VALUES]


class WebhookFilter(BoundedFilterSet):
    status = django_filters.ChoiceFilter(choices=Webhook.Status.choices, help_text="Only webhooks with this status.")
    health = django_filters.ChoiceFilter(
        choices=Standing.choices, method="in_health", help_text="Only webhooks whose `health` has this state."
    )
    event_type = django_filters.CharFilter(
        method="subscribed", help_text="Only webhooks subscribed to this event type."
    )

    def in_health(self, queryset: Any, name: str, value: str) -> QuerySet[Webhook]:
        found: QuerySet[Webhook] = queryset.filter(conditions(timezone.now())[Standing(value)])
        return found

    def subscribed(self, queryset: Any, name: str, value: str) -> QuerySet[Webhook]:
        found: QuerySet[Webhook] = queryset.filter(subscribed_to(value))
        return found


class DeliveryFilter(BoundedFilterSet):
    state = django_filters.ChoiceFilter(choices=Delivery.State.choices, method="in_state", help_text="In this state.")
    kind = django_filters.ChoiceFilter(choices=Delivery.Kind.choices, help_text="Only deliveries of this kind.")
    event_type = django_filters.CharFilter(method="of_type", help_text="Only deliveries of events of this type.")
    event_id = django_filters.CharFilter(field_name="event", help_text="Only deliveries of this event.")
    reference = django_filters.CharFilter(
        method="referring", help_text="Only deliveries of events with this reference."
    )
    result = django_filters.ChoiceFilter(
        method="with_result",
        choices=[*DeliveryAttempt.Result.choices, (UNREACHABLE, UNREACHABLE)],
        help_text="Only deliveries whose last attempt had this result.",
    )

    missed = django_filters.ChoiceFilter(
        method="still_missed",
        choices=[("true", "true")],
        help_text="`true` for given-up and cancelled deliveries whose event is still missed: it was neither delivered "
        "otherwise, nor will be attempted.",
    )
    created_after = CreatedFilter(
        field_name="created_at", lookup_expr="gte", help_text="Created at this time or later."
    )
    created_before = CreatedFilter(field_name="created_at", lookup_expr="lt", help_text="Created before this time.")
    by_index = frozenset({"event_id", "reference", "webhook_id", "replay_id", "created_after", "created_before"})

    def is_by_index(self, name: str, value: Any) -> bool:
        if self.parts.field == "event" and name in {"webhook_id", "replay_id"}:
            return False  # PostgreSQL might read all their rows
        return super().is_by_index(name, value) or (name == "state" and Delivery.objects.is_listed(value, self.parts))

    @property
    def horizon(self) -> int:  # type: ignore[override] # depends on the state
        return Delivery.objects.horizon_of(self.form.cleaned_data["state"])

    def in_state(self, queryset: Any, name: str, value: str) -> QuerySet[Delivery]:
        found: QuerySet[Delivery] = queryset.in_state(value)
        return found

    def with_result(self, queryset: Any, name: str, value: str) -> QuerySet[Delivery]:
        found: QuerySet[Delivery] = queryset.with_result(value)
        return found

    def still_missed(self, queryset: QuerySet[Delivery], name: str, value: str) -> QuerySet[Delivery]:
        return still_missed(queryset)

    def referring(self, queryset: QuerySet[Delivery], name: str, value: str) -> QuerySet[Delivery]:
        return queryset.filter(event__in=EventReference.newest_events(value, [self.owner.pk]))

    def of_type(self, queryset: Any, name: str, value: str) -> QuerySet[Delivery]:
        found: QuerySet[Delivery] = queryset.of_type(value)
        return found


def events_asked(request: Request, owner: Any) -> Parts | None:
    """Return the events of the query, whose deliveries are adjacent in an index, or None without such a parameter.

    They also have deliveries to webhooks of others.
    """
    event_id, reference = (request.query_params.get(name, "").strip() for name in ("event_id", "reference"))
    if event_id:
        return Parts("event", [event_id])
    return Parts("event", EventReference.newest_events(reference, [owner.pk])) if reference else None


class DeliveryOfAnyWebhookFilter(DeliveryFilter):
    webhook_id = django_filters.CharFilter(field_name="webhook", help_text="Only deliveries to this webhook.")
    replay_id = django_filters.CharFilter(field_name="replay", help_text="Only deliveries queued by this replay.")


class AuditFilter(BoundedFilterSet):
    created_after = CreatedFilter(
        field_name="created_at", lookup_expr="gte", help_text="Created at this time or later."
    )
    created_before = CreatedFilter(field_name="created_at", lookup_expr="lt", help_text="Created before this time.")
    by_index = frozenset({"created_after", "created_before"})
    action = django_filters.ChoiceFilter(choices=Action.choices, help_text="Only entries with this action.")
    via = django_filters.ChoiceFilter(choices=Via.choices, help_text="Only entries of changes made in this way.")


class EventFilter(BoundedFilterSet):
    # ``created_at`` is the time of occurrence, which the identifier does not contain.
    created_after = MomentFilter(field_name="created_at", lookup_expr="gte", help_text="Created at this time or later.")
    created_before = MomentFilter(field_name="created_at", lookup_expr="lt", help_text="Created before this time.")
    type = django_filters.CharFilter(help_text="Only events of this type.")
    reference = django_filters.CharFilter(method="referring", help_text="Only events with this reference.")
    by_index = frozenset({"reference"})
    test = django_filters.TypedChoiceFilter(
        field_name="is_test",
        choices=(("true", "true"), ("false", "false")),
        coerce=lambda text: text == "true",
        help_text="`true` for test events only, `false` for real events only.",
    )

    def referring(self, queryset: QuerySet[Event], name: str, value: str) -> QuerySet[Event]:
        return queryset.filter(pk__in=EventReference.events(value))


def _schema(field: Any) -> dict[str, Any]:
    if isinstance(field, MomentField):
        return {"type": "string", "format": "date-time"}
    if isinstance(field, forms.ChoiceField):
        choices: Any = field.choices
        return {"type": "string", "enum": [value for value, _ in choices if value]}
    return {"type": "string", "minLength": 1, "pattern": r"^[^\u0000]*$"}


class NewestFirstPagination(BasePagination):
    """Pages from the newest row to the oldest; identifiers are ordered by time.

    The cost of a page does not depend on its position, and new rows do not shift it. With a filter that has no index, a
    page scans a limited number of rows. It may then be incomplete, and its link continues the search.
    """

    page_size = 50
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.url = request.build_absolute_uri()
        bounds: Bounds = getattr(view, "bounds", Bounds())
        self.page = read_page(
            queryset,
            scope=bounds.scope,
            parts=bounds.parts,
            cursor=self._cursor(request),
            size=self._page_size(request),
            horizon=bounds.horizon,
        )
        return self.page.rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self.next_url(), "previous": self.previous_url(), "results": data})

    def next_url(self) -> str | None:
        return self._url(self.page.older)

    def previous_url(self) -> str | None:
        return self._url(self.page.newer)

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": {
                    **link,
                    "description": "URL of the page with older records; null on the last page only. With some "
                    "filters, a page before it can be incomplete or empty.",
                },
                "previous": {**link, "description": "URL of the page with newer records; null on the first page."},
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        limit = f"Page size. Default: {self.page_size}. Maximum: {self.max_page_size}; larger values are reduced to it."
        return [
            {
                "name": "cursor",
                "in": "query",
                "description": "Position of the page. Follow `next` and `previous` instead of constructing it.",
                "schema": {"type": "string", "pattern": f"^{CURSOR_PATTERN}$"},
            },
            {"name": "limit", "in": "query", "description": limit, "schema": {"type": "integer", "minimum": 1}},
        ]

    def _page_size(self, request: Request) -> int:
        text = request.query_params.get("limit", str(self.page_size))
        digits = text.lstrip("0")
        if not re.fullmatch(r"[0-9]+", digits, re.ASCII):
            raise ValidationError({"limit": ["Give a whole number of 1 or more."]})
        # Nine digits exceed every page size, so further digits need not be parsed.
        return min(int(digits[:9]), self.max_page_size)

    def _cursor(self, request: Request) -> Cursor | None:
        text = request.query_params.get("cursor")
        if text is None:
            return None
        cursor = Cursor.parsed(text)
        if cursor is None:
            raise ValidationError({"cursor": ["This is not a cursor; follow `next` and `previous`."]})
        return cursor

    def _url(self, cursor: Cursor | None) -> str | None:
        return replace_query_param(self.url, "cursor", str(cursor)) if cursor else None


class WholeListPagination(NewestFirstPagination):
    """A single page, for a short list that is not in the database."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        return list(queryset)

    def next_url(self) -> None:
        return None

    def previous_url(self) -> None:
        return None

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return []
