"""What lists can be narrowed down by."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import django_filters
from django import forms
from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import ValidationError
from rest_framework.filters import BaseFilterBackend
from rest_framework.request import Request

from ..event_types import VERIFICATION
from ..models import Delivery, DeliveryAttempt, Webhook
from ..models.audit import Action, Via


class QueryFilterBackend(BaseFilterBackend):
    """Apply a view's ``filterset_class``, and document it from its fields alone."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset_class = getattr(view, "filterset_class", None)
        if filterset_class is None:
            return queryset
        if blank := [name for name in filterset_class.base_filters if request.query_params.get(name) == ""]:
            raise ValidationError({name: ["Give a value, or leave the parameter out."] for name in blank})
        filterset = filterset_class(request.query_params, queryset=queryset, request=request)
        if not filterset.is_valid():
            raise ValidationError({name: list(messages) for name, messages in filterset.errors.items()})
        filtered: QuerySet[Any] = filterset.qs
        return filtered

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
            moment = parse_datetime(text)
            if moment and moment.tzinfo:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        raise forms.ValidationError("Give a time with its offset, as in 2026-01-31T12:00:00Z.")


class MomentFilter(django_filters.Filter):
    field_class = MomentField


class CreatedFilterSet(django_filters.FilterSet):
    created_after = MomentFilter(field_name="created_at", lookup_expr="gte", help_text="Created at this time or later.")
    created_before = MomentFilter(field_name="created_at", lookup_expr="lt", help_text="Created before this time.")


class WebhookFilter(django_filters.FilterSet):
    status = django_filters.ChoiceFilter(choices=Webhook.Status.choices, help_text="In this status.")
    event_type = django_filters.CharFilter(method="subscribed", help_text="Subscribed to this event type.")

    def subscribed(self, queryset: Any, name: str, value: str) -> QuerySet[Webhook]:
        found: QuerySet[Webhook] = queryset.subscribed_to(value)
        return found


class DeliveryFilter(CreatedFilterSet):
    state = django_filters.ChoiceFilter(choices=Delivery.State.choices, help_text="In this state.")
    kind = django_filters.ChoiceFilter(choices=Delivery.Kind.choices, help_text="Of this kind.")
    event_type = django_filters.CharFilter(method="of_type", help_text="Of an event of this type.")
    event_id = django_filters.CharFilter(field_name="event", help_text="Of this event.")
    result = django_filters.ChoiceFilter(
        field_name="last_result",
        choices=DeliveryAttempt.Result.choices,
        help_text="Whose last attempt had this result.",
    )

    def of_type(self, queryset: QuerySet[Delivery], name: str, value: str) -> QuerySet[Delivery]:
        if value == VERIFICATION.name:
            return queryset.filter(kind=Delivery.Kind.VERIFICATION)
        return queryset.filter(event__type=value)


class DeliveryOfAnyWebhookFilter(DeliveryFilter):
    webhook_id = django_filters.CharFilter(field_name="webhook", help_text="To this webhook.")
    replay_id = django_filters.CharFilter(field_name="replay", help_text="Queued by this replay.")


class AuditFilter(CreatedFilterSet):
    action = django_filters.ChoiceFilter(choices=Action.choices, help_text="Of this action.")
    via = django_filters.ChoiceFilter(choices=Via.choices, help_text="Asked for in this way.")


class EventFilter(CreatedFilterSet):
    type = django_filters.CharFilter(help_text="Of this type.")
    test = django_filters.TypedChoiceFilter(
        field_name="is_test",
        choices=(("true", "true"), ("false", "false")),
        coerce=lambda text: text == "true",
        help_text="`true` for test events alone, `false` for the real ones alone.",
    )


def _schema(field: Any) -> dict[str, Any]:
    if isinstance(field, MomentField):
        return {"type": "string", "format": "date-time"}
    if isinstance(field, forms.ChoiceField):
        choices: Any = field.choices
        return {"type": "string", "enum": [value for value, _ in choices if value]}
    return {"type": "string", "minLength": 1}
