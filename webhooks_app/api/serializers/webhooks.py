"""Webhooks, and the values that they can choose."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ...choices import known_signatures
from ...delivery.disclosure import hides_status_time
from ...models import Webhook, WebhookHealth
from ...models.order import Order
from ...operations.rotation import warning_about_key
from ...protocol.times import format_time
from ..fields import FilterField, MomentField


class PublicKeySerializer(serializers.Serializer[Any]):
    scheme = serializers.CharField()
    key = serializers.CharField()
    valid_until = MomentField(allow_null=True, help_text="Null for the current key.")


class WebhookSerializer(serializers.Serializer[Webhook]):
    id = serializers.CharField()
    url = serializers.CharField()
    events = serializers.ListField(child=serializers.CharField(), source="event_types")
    status = serializers.ChoiceField(
        choices=Webhook.Status.choices,
        help_text="Only `active` webhooks receive events; `pending` ones are unverified.",
    )
    status_reason = serializers.CharField(help_text="Human-readable reason if it is disabled or failed.")
    status_changed_at = serializers.SerializerMethodField(
        help_text="Null if the verification failed because the URL could not be reached."
    )
    paused_at = MomentField(
        allow_null=True,
        help_text="Start of the pause, in which deliveries are held; null if it is not paused.",
    )
    failing_since = serializers.SerializerMethodField(
        help_text="Start of the failing period, in which every delivery was given up; null if there is none."
    )
    filter = FilterField(allow_null=True)
    description = serializers.CharField()
    retry_notices = serializers.BooleanField()
    max_in_flight = serializers.IntegerField(allow_null=True)
    rate_limit = serializers.FloatField(allow_null=True)
    signatures = serializers.ListField(child=serializers.CharField())
    headers = serializers.DictField(
        child=serializers.CharField(), help_text="The webhook's own headers by name, with redacted values."
    )
    retry_policy = serializers.CharField()
    accepted_statuses = serializers.ChoiceField(choices=Webhook.AcceptedStatuses.choices)
    order = serializers.ChoiceField(choices=Order.choices)
    public_keys = PublicKeySerializer(
        many=True, help_text="Keys that verify asymmetric signatures; two per scheme during the overlap of a rotation."
    )
    previous_secret_until = serializers.SerializerMethodField(
        help_text="End of the overlap, in which the previous secret signs as well; null if there is none."
    )
    created = MomentField(source="created_at")

    def get_status_changed_at(self, webhook: Webhook) -> str | None:
        return None if hides_status_time(webhook) else format_time(webhook.status_changed_at)

    def get_failing_since(self, webhook: Webhook) -> str | None:
        health = WebhookHealth.of(webhook)
        return format_time(health.failing_since) if health and health.failing_since else None

    def get_previous_secret_until(self, webhook: Webhook) -> str | None:
        until = webhook.previous_secret_until
        return format_time(until) if until is not None else None


class WebhookWithSecretSerializer(WebhookSerializer):
    secret = serializers.SerializerMethodField(
        help_text="The new secret, or the new key of another scheme, shown in this answer only. Null after the "
        "rotation of a key pair: its public key is in `public_keys`."
    )

    def get_secret(self, webhook: Webhook) -> str | None:
        scheme = self.context["view"].rotated_scheme
        key = None if known_signatures()[scheme].is_asymmetric else webhook.current_key(scheme)
        return key.key if key is not None else None


class RotatedWebhookSerializer(WebhookWithSecretSerializer):
    warnings = serializers.SerializerMethodField(
        help_text="Sentences about a key that signs nothing, because the webhook does not use its scheme."
    )

    def get_warnings(self, webhook: Webhook) -> list[str]:
        warning = warning_about_key(webhook, self.context["view"].rotated_scheme)
        return [warning] if warning else []


class OfferedSignatureSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField()
    headers = serializers.ListField(child=serializers.CharField(), help_text="The headers of a signed request.")


class OfferedPolicySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField()
    is_default = serializers.BooleanField(help_text="Whether it applies to webhooks with an empty `retry_policy`.")
    max_attempts = serializers.IntegerField()
    delays_seconds = serializers.ListField(
        child=serializers.FloatField(),
        help_text="The shortest delay before each retry, counted from the end of the attempt.",
    )


class OfferSerializer(serializers.Serializer[Any]):
    signatures = OfferedSignatureSerializer(many=True)
    retry_policies = OfferedPolicySerializer(many=True)
    accepted_statuses = serializers.ListField(child=serializers.CharField())
    orders = serializers.ListField(child=serializers.CharField())
    filter_operators = serializers.ListField(child=serializers.CharField())
