"""Events, deliveries and their attempts, without the facts that owners must not learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from ...event_types import EventType
from ...models import ApiKey, Delivery, DeliveryAttempt, Event
from ...models.disclosure import UNREACHABLE
from ...models.hold import SILENT, Hold, HoldReason, holds_of
from ...routing.report import REPORTED, Decision
from ..fields import MomentField, ReasonCodeField

RESULTS = [*DeliveryAttempt.Result.choices, (UNREACHABLE, "URL not reached")]

_UNLESS_PROBED = "Empty for tests and verifications."


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


class QueuedDeliverySerializer(serializers.Serializer[Delivery]):
    delivery_id = serializers.CharField(source="id", help_text="See `/deliveries/{id}` for its progress.")


class QueuedEventSerializer(QueuedDeliverySerializer):
    event_id = serializers.CharField()


class HoldSerializer(serializers.Serializer[Hold]):
    reason = serializers.ChoiceField(
        choices=[(reason.value, reason.label) for reason in HoldReason if reason not in SILENT]
    )
    since = MomentField(allow_null=True, help_text="Time of the claim, of its expiry, or of the start of the pause.")
    until = MomentField(
        allow_null=True,
        help_text="End of the hold: the next attempt, the next slot of the rate limit, or the end of a claim.",
    )
    delivery_id = serializers.CharField(
        source="blocker", allow_null=True, help_text="For `ordered`: the delivery that is sent before this one."
    )

    def get_attribute(self, instance: Any) -> Hold | None:
        holds = getattr(self.parent, "holds", None) or _holds([instance])
        hold: Hold | None = holds[instance.pk]
        return None if hold is None or hold.reason in SILENT else hold


def _holds(deliveries: Sequence[Delivery]) -> dict[str, Hold | None]:
    holds = holds_of(deliveries, now=timezone.now())
    return {delivery.pk: hold for delivery, hold in zip(deliveries, holds, strict=True)}


class DeliveryListSerializer(serializers.ListSerializer[Any]):
    """Find the holds of all deliveries at once."""

    def to_representation(self, data: Any) -> list[Any]:
        deliveries = list(data)
        self.child.holds = _holds(deliveries)  # type: ignore[union-attr]
        return super().to_representation(deliveries)


class DeliverySerializer(serializers.Serializer[Delivery]):
    class Meta:
        list_serializer_class = DeliveryListSerializer

    id = serializers.CharField()
    webhook_id = serializers.CharField()
    event_id = serializers.CharField(allow_null=True, help_text="Null for a verification, which is not an event.")
    event_type = serializers.CharField()
    kind = serializers.ChoiceField(choices=Delivery.Kind.choices)
    state = serializers.ChoiceField(choices=Delivery.State.choices)
    state_reason = serializers.CharField()
    attempt_count = serializers.IntegerField()
    max_attempts = serializers.IntegerField()
    retry_policy = serializers.CharField(
        source="policy.name", help_text="The retry policy, fixed when the delivery was queued."
    )
    next_attempt_at = MomentField(
        source="due_at",
        allow_null=True,
        help_text="Null during an attempt, after the last one, and if the URL of an unverified webhook could not be "
        "reached.",
    )
    hold = HoldSerializer(allow_null=True, help_text="Why it is not sent now; null if it is due or finished.")
    created = MomentField(source="created_at")
    finished_at = MomentField(
        allow_null=True,
        help_text="Null while it is pending, and if the URL of an unverified webhook could not be reached.",
    )
    redelivery_of = serializers.CharField(
        source="redelivery_of_id", allow_null=True, help_text="The first delivery of the event, if this is another one."
    )
    replay_id = serializers.CharField(allow_null=True, help_text="The replay that queued it, if any.")


class AttemptSerializer(serializers.Serializer[DeliveryAttempt]):
    id = serializers.CharField()
    number = serializers.IntegerField()
    result = serializers.ChoiceField(
        choices=RESULTS,
        help_text="`unreachable` for every attempt to an unverified webhook whose URL could not be reached.",
    )
    message = serializers.CharField(
        help_text="Human-readable result, without details of the certificate for tests and verifications."
    )
    message_code = ReasonCodeField(
        source="message", help_text="Code of the message; `text` if the transport has none, empty without a message."
    )
    started_at = MomentField(allow_null=True, help_text="Null for retries with the result `unreachable`.")
    duration_ms = serializers.IntegerField(allow_null=True, help_text="Null with the result `unreachable`.")
    url = serializers.CharField()
    response_status = serializers.IntegerField(allow_null=True)
    response_headers = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField(), min_length=2, max_length=2),
        help_text=f"Pairs of name and value, as sent by the receiver. {_UNLESS_PROBED}",
    )
    response_body = serializers.CharField(help_text=f"The stored part of the body. {_UNLESS_PROBED}")
    retry_after = serializers.CharField(
        help_text="The receiver's Retry-After header, used if the retry policy allows it."
    )


class DeliveryWithAttemptsSerializer(DeliverySerializer):
    attempts = AttemptSerializer(many=True, source="shown_attempts")
