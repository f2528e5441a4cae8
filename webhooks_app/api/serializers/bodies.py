"""Request bodies of the operations on webhooks."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from ...exceptions import UnknownEventTypeError
from ...models import Webhook
from ...models.limits import MAX_EVENT_TYPES, MAX_RATE, MAX_SECRET_OVERLAP, MAX_SIGNATURES, MIN_RATE, most_in_flight
from ...models.order import Order
from ...models.own_headers import REDACTED
from ...models.visibility import event_types_for
from ..fields import (
    CountField,
    CredentialsField,
    EventTypeField,
    FilterField,
    FlagField,
    HeadersField,
    KeySchemeField,
    OptionField,
    RateField,
    RetryPolicyField,
    SecretField,
    ShortListField,
    SignatureField,
    TextField,
    UrlField,
)
from ..known_fields import BodySerializer


class SettableFields(BodySerializer[Webhook]):
    """Fields that an owner sets at creation and may change later."""

    url = UrlField(max_length=2048, help_text="URL of the receiver, verified before anything else is sent to it.")
    events = ShortListField(
        child=EventTypeField(),
        source="event_types",
        min_length=1,
        max_length=MAX_EVENT_TYPES,
        help_text="The event types to send. Duplicates are removed.",
    )
    filter = FilterField(
        required=False,
        allow_null=True,
        help_text="A condition on the data of events; events that do not match are not sent. Null for no condition.",
    )
    description = TextField(
        required=False, allow_blank=True, max_length=200, help_text="For your own use; not sent to the receiver."
    )
    retry_notices = FlagField(
        required=False, help_text="Whether `webhook.retry` is sent after a failed attempt that will be retried."
    )
    max_in_flight = CountField(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="Maximum number of concurrent requests. Null for the default, which an owner can only lower.",
    )
    rate_limit = RateField(
        required=False,
        allow_null=True,
        min_value=MIN_RATE,
        max_value=MAX_RATE,
        help_text="Maximum number of deliveries per second, retries included; the others wait. Null for no limit.",
    )

    signatures = ShortListField(
        child=SignatureField(),
        required=False,
        min_length=1,
        max_length=MAX_SIGNATURES,
        help_text="The signature schemes; each request is signed with all of them. `native` is the scheme of this "
        "service, `standard` and `standard-ed25519` are those of Standard Webhooks.",
    )

    headers = HeadersField(
        required=False,
        help_text="Headers to add to each request, by name. They replace all earlier ones. Values are stored encrypted "
        f"and shown as `{REDACTED}`; send that to keep a stored value. A change of the URL's scheme, host or port "
        "removes the headers that are not given again.",
    )
    basic_auth = CredentialsField(
        required=False,
        allow_null=True,
        help_text="Credentials for HTTP basic authentication, sent in the Authorization header; null removes them.",
    )

    retry_policy = RetryPolicyField(
        required=False,
        allow_blank=True,
        max_length=40,
        help_text="The name of the retry policy for new deliveries; empty for the default of the service.",
    )
    accepted_statuses = OptionField(
        required=False,
        choices=Webhook.AcceptedStatuses.choices,
        help_text="The statuses that confirm receipt. A verification always needs 200.",
    )
    order = OptionField(
        required=False,
        choices=Order.choices,
        help_text="Deliveries to send one after another: `none`, all of the `webhook`, or those of events with the "
        "same ordering `key`.",
    )

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()
        fields["max_in_flight"].max_value = most_in_flight()  # shown in the documentation; depends on the settings
        return fields


class NewWebhookSerializer(SettableFields):
    secret = SecretField(help_text="The key of the signatures, as UTF-8 text. Generated if omitted.")


class WebhookChangesSerializer(SettableFields):
    hints: ClassVar = {"secret": "Use rotate-secret to change the secret."}

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class SchemeSerializer(BodySerializer[Webhook]):
    scheme = KeySchemeField(
        required=False,
        help_text="The signature scheme of the key. Default: `native`, whose key is the secret.",
    )


class NewSecretSerializer(SchemeSerializer):
    secret = SecretField(help_text="The new secret. Generated if omitted.")
    overlap_seconds = CountField(
        required=False,
        min_value=0,
        max_value=int(MAX_SECRET_OVERLAP.total_seconds()),
        help_text="Seconds during which the replaced key signs as well; 0 for no overlap. Default: a day, unless "
        "configured otherwise.",
    )


class TestRequestSerializer(BodySerializer[Any]):
    webhook_id = TextField(help_text="The webhook to send to. It need not be subscribed to the type.")
    event_type = EventTypeField(help_text="The type whose example is sent.")

    def validate_event_type(self, value: str) -> str:
        try:
            return event_types_for(self.context["view"].owner).get(value).name
        except UnknownEventTypeError as error:
            raise serializers.ValidationError(str(error)) from None


class TryFilterSerializer(BodySerializer[Any]):
    event_id = TextField(max_length=40, help_text="An event of the webhook's owner.")
    filter = FilterField(required=False, allow_null=True, help_text="Default: the filter of the webhook.")
