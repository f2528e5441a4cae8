"""Events, event types, and decisions about the recipients of events."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ...event_types import EventType
from ...models import ApiKey, Event
from ...routing.report import REPORTED, Decision
from ..fields import MomentField


class EventSerializer(serializers.Serializer[Event]):
    id = serializers.CharField()
    type = serializers.CharField()
    created = MomentField(source="created_at")
    test = serializers.BooleanField(source="is_test")


class KeptDataField(serializers.DictField):
    def get_attribute(self, instance: Event) -> dict[str, Any] | None:
        return instance.data if instance.has_body else None


class ReferencesField(serializers.ListField):
    def get_attribute(self, instance: Event) -> list[str]:
        return list(instance.references.values_list("value", flat=True))


class EventWithDataSerializer(EventSerializer):
    data = KeptDataField(  # type: ignore[assignment] # the field takes the name of a property
        allow_null=True, help_text="Null once it is no longer stored; such an event cannot be redelivered."
    )
    references = ReferencesField(child=serializers.CharField(), help_text="Business identifiers for finding the event.")
    ordering_key = serializers.CharField(
        allow_null=True, help_text="Webhooks with order by `key` receive events with the same key one after another."
    )


class EventTypeSerializer(serializers.Serializer[EventType[Any]]):
    name = serializers.CharField()
    group = serializers.CharField()
    description = serializers.CharField()
    schema = serializers.SerializerMethodField(help_text="JSON Schema (2020-12) of the data.")
    example = serializers.DictField(help_text="Example data, as in a test event.")

    def get_schema(self, event_type: EventType[Any]) -> dict[str, Any]:
        return event_type.json_schema()


class TriedFilterSerializer(serializers.Serializer[Any]):
    matches = serializers.BooleanField()
    mismatch = serializers.CharField(help_text="The first condition that does not hold; empty if the filter matches.")


class DecisionSerializer(serializers.Serializer[Decision]):
    webhook_id = serializers.CharField(source="webhook.pk")
    sent = serializers.BooleanField(source="is_sent")
    reason = serializers.ChoiceField(choices=REPORTED, help_text="The reason at the time of the event.")
    detail = serializers.SerializerMethodField(
        help_text="For `filtered`: the condition that the data did not satisfy; empty without the scope "
        "`webhooks:read`."
    )
    delivery_id = serializers.CharField(source="delivery.pk", default=None, allow_null=True)

    def get_detail(self, decision: Decision) -> str:
        reads_webhooks = self.context["view"].actor.has_scope(ApiKey.Scope.WEBHOOKS_READ.value)
        return decision.detail if reads_webhooks else ""
