"""The records of the API, and the bodies that it accepts."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers

from ..decisions import Decision, Reason
from ..delivery.outcome import told_of_probe
from ..event_types import EventType, registry
from ..exceptions import UnknownEventTypeError
from ..models import AuditEntry, Delivery, DeliveryAttempt, Event, Webhook, WebhookHealth
from ..models.audit import Action, Via
from ..models.limits import MAX_EVENT_TYPES, MAX_RATE, MAX_SECRET_OVERLAP, MIN_RATE, check_in_flight, most_in_flight
from ..times import format_time
from .fields import (
    CountField,
    EventTypeField,
    FlagField,
    MomentField,
    RateField,
    SecretField,
    ShortListField,
    TextField,
    UrlField,
)


class SettableFields(serializers.Serializer[Webhook]):
    """What an owner sets at creation and may change later."""

    url = UrlField(max_length=2048, help_text="Where to send. It is verified before anything else is sent there.")
    events = ShortListField(
        child=EventTypeField(),
        source="event_types",
        min_length=1,
        max_length=MAX_EVENT_TYPES,
        help_text="The event types to send. Duplicates are folded.",
    )
    description = TextField(
        required=False, allow_blank=True, max_length=200, help_text="For people; it is not sent to the receiver."
    )
    retry_notices = FlagField(
        required=False, help_text="Whether `webhook.retry` is sent after an attempt that will be retried."
    )
    max_in_flight = CountField(
        required=False,
        allow_null=True,
        min_value=1,
        validators=[check_in_flight],
        help_text="Requests at a time, at most; null for what every webhook has, which an owner can only lower.",
    )
    rate_limit = RateField(
        required=False,
        allow_null=True,
        min_value=MIN_RATE,
        max_value=MAX_RATE,
        help_text="Deliveries a second, at most, retries included; what comes faster waits. Null for no limit.",
    )

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()
        fields["max_in_flight"].max_value = most_in_flight()  # for the documentation, by the settings in force
        return fields


class NewWebhookSerializer(SettableFields):
    secret = SecretField(help_text="Keys the signatures, as UTF-8 text. Where it is left out, one is made.")


class WebhookChangesSerializer(SettableFields):
    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "secret" in self.initial_data:
            raise serializers.ValidationError({"secret": ["A secret is changed by rotate-secret, not here."]})
        return attrs


class NewSecretSerializer(serializers.Serializer[Webhook]):
    secret = SecretField(help_text="The new secret. Where it is left out, one is made.")
    overlap_seconds = CountField(
        required=False,
        min_value=0,
        max_value=int(MAX_SECRET_OVERLAP.total_seconds()),
        help_text="For how long the replaced secret signs too, in `X-Webhook-Signature-Previous`; 0 cuts it off at "
        "once. Where it is left out, a day, unless the service says otherwise.",
    )


class WebhookSerializer(serializers.Serializer[Webhook]):
    id = serializers.CharField()
    url = serializers.CharField()
    events = serializers.ListField(child=serializers.CharField(), source="event_types")
    status = serializers.ChoiceField(
        choices=Webhook.Status.choices, help_text="Only `active` receives events; `pending` waits to be verified."
    )
    status_reason = serializers.CharField(help_text="Why it is disabled or failed, for people.")
    status_changed_at = MomentField()
    paused_at = MomentField(
        allow_null=True,
        help_text="Since when deliveries are held, to be sent once it is resumed; null when they are not.",
    )
    failing_since = serializers.SerializerMethodField(
        help_text="Since when every delivery has been given up; null when none was after the last that succeeded."
    )
    description = serializers.CharField()
    retry_notices = serializers.BooleanField()
    max_in_flight = serializers.IntegerField(allow_null=True)
    rate_limit = serializers.FloatField(allow_null=True)
    previous_secret_until = serializers.SerializerMethodField(
        help_text="Until when the secret before the current one signs too; null when it does not."
    )
    created = MomentField(source="created_at")

    def get_failing_since(self, webhook: Webhook) -> str | None:
        health = WebhookHealth.of(webhook)
        return format_time(health.failing_since) if health and health.failing_since else None

    def get_previous_secret_until(self, webhook: Webhook) -> str | None:
        until = webhook.previous_secret_until
        return format_time(until) if until is not None and until > timezone.now() else None


class WebhookWithSecretSerializer(WebhookSerializer):
    secret = serializers.CharField(help_text="Shown in this answer only.")


class TestRequestSerializer(serializers.Serializer[Any]):
    webhook_id = TextField(help_text="The webhook to send to. It need not subscribe to the type.")
    event_type = EventTypeField(help_text="The type whose example is sent.")

    def validate_event_type(self, value: str) -> str:
        try:
            return registry.get_emittable(value).name
        except UnknownEventTypeError as error:
            raise serializers.ValidationError(str(error)) from None


class QueuedDeliverySerializer(serializers.Serializer[Delivery]):
    delivery_id = serializers.CharField(source="id", help_text="Its progress is shown at `/deliveries/{id}`.")


class QueuedEventSerializer(QueuedDeliverySerializer):
    event_id = serializers.CharField()


class DeliverySerializer(serializers.Serializer[Delivery]):
    id = serializers.CharField()
    webhook_id = serializers.CharField()
    event_id = serializers.CharField(allow_null=True, help_text="Null for a verification, which is not an event.")
    event_type = serializers.CharField()
    kind = serializers.ChoiceField(choices=Delivery.Kind.choices)
    state = serializers.ChoiceField(choices=Delivery.State.choices)
    state_reason = serializers.CharField()
    attempt_count = serializers.IntegerField()
    max_attempts = serializers.IntegerField()
    next_attempt_at = serializers.SerializerMethodField(help_text="Null while an attempt is made, and after the last.")
    created = MomentField(source="created_at")
    finished_at = MomentField(allow_null=True)
    redelivery_of = serializers.CharField(
        source="redelivery_of_id", allow_null=True, help_text="The first delivery of the event, where this is another."
    )
    replay_id = serializers.CharField(allow_null=True, help_text="The replay that queued it.")

    def get_next_attempt_at(self, delivery: Delivery) -> str | None:
        if delivery.claimed_at or delivery.next_attempt_at is None:
            return None
        return format_time(delivery.next_attempt_at)


PROBES = (Delivery.Kind.TEST, Delivery.Kind.VERIFICATION)
"""Sent wherever a caller likes, who therefore learns their result and a status, and not what is to be read there."""

_UNLESS_PROBED = "Empty for tests and verifications."


class AttemptSerializer(serializers.Serializer[DeliveryAttempt]):
    id = serializers.CharField()
    number = serializers.IntegerField()
    result = serializers.ChoiceField(choices=DeliveryAttempt.Result.choices)
    message = serializers.CharField(
        help_text="What the result means, for people; of tests and verifications, nothing of a certificate."
    )
    started_at = MomentField()
    duration_ms = serializers.IntegerField(allow_null=True)
    url = serializers.CharField()
    response_status = serializers.IntegerField(allow_null=True)
    response_headers = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField(), min_length=2, max_length=2),
        help_text=f"Pairs of name and value, as the receiver sent them. {_UNLESS_PROBED}",
    )
    response_body = serializers.CharField(help_text=f"As far as it is kept. {_UNLESS_PROBED}")
    retry_after = serializers.CharField(help_text="The receiver's Retry-After. It is recorded and changes nothing.")

    def to_representation(self, instance: DeliveryAttempt) -> dict[str, Any]:
        shown = super().to_representation(instance)
        if instance.delivery.kind in PROBES:
            message = told_of_probe(instance.result, instance.message)
            shown.update(message=message, response_headers=[], response_body="", retry_after="")
        return shown


class DeliveryWithAttemptsSerializer(DeliverySerializer):
    attempts = AttemptSerializer(many=True)


class EventSerializer(serializers.Serializer[Event]):
    id = serializers.CharField()
    type = serializers.CharField()
    created = MomentField(source="created_at")
    test = serializers.BooleanField(source="is_test")


class KeptDataField(serializers.DictField):
    def get_attribute(self, instance: Event) -> dict[str, Any] | None:
        return instance.data if instance.has_body else None


class EventWithDataSerializer(EventSerializer):
    data = KeptDataField(  # type: ignore[assignment] # the field takes the name of a property
        allow_null=True, help_text="Null once it is no longer kept; such an event cannot be redelivered."
    )


class DecisionSerializer(serializers.Serializer[Decision]):
    webhook_id = serializers.CharField(source="webhook.pk")
    sent = serializers.BooleanField(source="is_sent")
    reason = serializers.ChoiceField(choices=Reason.choices, help_text="Why, by what the webhook was like then.")
    delivery_id = serializers.CharField(source="delivery.pk", default=None, allow_null=True)


class AuditEntrySerializer(serializers.Serializer[AuditEntry]):
    id = serializers.CharField()
    action = serializers.ChoiceField(choices=Action.choices)
    via = serializers.ChoiceField(choices=Via.choices, help_text="The way in which it was asked for.")
    by = serializers.SerializerMethodField(
        help_text="The account or the beginning of its API key; empty where it was staff or the service."
    )
    changes = serializers.DictField(
        child=serializers.ListField(min_length=2, max_length=2),
        help_text="By the field that was changed: what it was, and what it became.",
    )
    reason = serializers.CharField()
    created = MomentField(source="created_at")

    def get_by(self, entry: AuditEntry) -> str:
        return entry.name_for(self.context["request"].user)

    def to_representation(self, instance: AuditEntry) -> dict[str, Any]:
        shown = super().to_representation(instance)
        changes = shown["changes"]
        shown["changes"] = {"events" if name == "event_types" else name: changes[name] for name in changes}
        return shown


class EventTypeSerializer(serializers.Serializer[EventType]):
    name = serializers.CharField()
    group = serializers.CharField()
    description = serializers.CharField()
    operational = serializers.BooleanField(
        help_text="Whether it tells of this service's own deliveries: an account cannot subscribe to it."
    )
    schema = serializers.SerializerMethodField(help_text="JSON Schema (2020-12) of the data.")
    example = serializers.DictField(help_text="Data of this type, as a test event carries it.")

    def get_schema(self, event_type: EventType) -> dict[str, Any]:
        return event_type.json_schema()
