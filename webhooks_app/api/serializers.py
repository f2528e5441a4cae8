"""Serializers of webhooks, events and event types, and of the bodies of requests about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework import serializers

from ..conf import known_policies, known_signatures
from ..event_types import EventType
from ..exceptions import UnknownEventTypeError
from ..models import ApiKey, AuditEntry, Delivery, Event, MailPreference, Webhook, WebhookHealth
from ..models.audit import Action, Via
from ..models.limits import MAX_EVENT_TYPES, MAX_RATE, MAX_SECRET_OVERLAP, MAX_SIGNATURES, MIN_RATE, most_in_flight
from ..models.own_headers import REDACTED
from ..models.standing import Standing, health_of, healths_of
from ..models.webhook import Order, Recovery
from ..models.webhook_settings import MAX_DESCRIPTION_LENGTH, MAX_POLICY_NAME_LENGTH, WEBHOOK_SETTINGS
from ..operations.rotation import warning_about_key
from ..owners import event_types_for
from ..pages.health import as_text, in_short
from ..protocol.json_data import format_time
from ..routing.report import REPORTED, Decision
from ..transport.endpoint import MAX_URL_LENGTH
from .fields import (
    BodySerializer,
    CountField,
    CredentialsField,
    FilterField,
    FlagField,
    HeadersInputField,
    KnownField,
    MomentField,
    MomentInputField,
    NameField,
    OptionField,
    RateField,
    ReasonCodeField,
    SecretInputField,
    ShortListField,
    TextField,
    UrlField,
    event_type_field,
)

AUDIT_NAMES = {each.audited: each.in_api for each in WEBHOOK_SETTINGS if each.in_api}
"""The API's names of changed fields."""


class PublicKeySerializer(serializers.Serializer[Any]):
    scheme = serializers.CharField()
    key = serializers.CharField()
    state = serializers.CharField(
        help_text="`current` signs now, `next` is prepared and signs as well, `previous` signs until `valid_until`.",
    )
    valid_from = MomentField(allow_null=True, help_text="Activation of a prepared key; null for others.")
    valid_until = MomentField(allow_null=True, help_text="End of the overlap; null for the newest key.")


class HealthSerializer(serializers.Serializer[Any]):
    """The health of a webhook."""

    state = KnownField(
        choices=Standing.choices, source="standing", help_text="What the receiver does now, by its requests."
    )
    text = serializers.CharField(help_text="The state in a sentence; empty if there is nothing to say.")
    since = MomentField(allow_null=True, help_text="Start of the failure, the pause or the delay; null for others.")
    failed_requests = serializers.IntegerField(help_text="Requests that failed since the last success.")
    cause = serializers.CharField(
        help_text="Commonest cause of these: a status such as `500`, or the result of an attempt; empty without any."
    )
    given_up = serializers.IntegerField(help_text="Events given up since the last success.")
    next_attempt_at = MomentField(allow_null=True, help_text="Time of the next retry; null if none is scheduled.")
    next_recovery_at = MomentField(
        allow_null=True,
        help_text="With automatic recovery: time of the next recovery attempt, which sends the oldest missed event. "
        "Null while other events wait for their retries, and without a failure.",
    )
    recovery_held_by = serializers.CharField(
        help_text="What holds back the automatic recovery: `webhook` while it is paused or stopped, `replay` if the "
        "replay of the missed events is; empty if nothing does."
    )

    def to_representation(self, instance: Webhook) -> Any:
        rows = getattr(self.parent, "parent", None)
        judged = rows.healths[instance.pk] if isinstance(rows, WebhookListSerializer) else health_of(instance)
        return super().to_representation({**asdict(judged), "text": as_text(in_short(instance, judged))})


class WebhookListSerializer(serializers.ListSerializer[Any]):
    """Reads the health of all webhooks at once."""

    def to_representation(self, data: Any) -> list[Any]:
        rows = list(data)
        self.healths = healths_of(rows)
        return super().to_representation(rows)


class WebhookSerializer(serializers.Serializer[Webhook]):
    id = serializers.CharField()
    url = serializers.CharField(help_text="The URL to which events are sent.")
    pending_url = serializers.SerializerMethodField(
        help_text="The new URL of an active webhook while it is verified; events go on to `url` until it replaces "
        "that. Null without one."
    )
    events = serializers.ListField(child=serializers.CharField(), source="event_types")
    status = KnownField(
        choices=Webhook.Status.choices,
        help_text="Only `active` webhooks receive events; `pending` ones are unverified.",
    )
    status_reason = serializers.CharField(
        help_text="Human-readable reason if it is disabled or failed, or if its new URL failed the verification."
    )
    status_reason_code = ReasonCodeField(
        source="status_reason", help_text="Code of the reason; `text` if a person wrote it, empty without a reason."
    )
    status_changed_at = MomentField(
        source="shown_status_changed_at",
        allow_null=True,
        help_text="Null if the verification failed because the URL could not be reached.",
    )
    paused_at = MomentField(
        allow_null=True,
        help_text="Start of the pause, in which deliveries are held; null if it is not paused.",
    )
    failing_since = serializers.SerializerMethodField(
        help_text="When the first request failed since which none has succeeded; null unless the receiver is failing."
    )
    health = HealthSerializer(source="*")
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
    accepted_statuses = KnownField(choices=Webhook.AcceptedStatuses.choices)
    order = KnownField(choices=Order.choices)
    recovery = KnownField(choices=Recovery.choices)
    public_keys = PublicKeySerializer(
        many=True, help_text="Keys that verify asymmetric signatures; two per scheme during a rotation."
    )
    previous_secret_until = MomentField(
        allow_null=True,
        help_text="End of the overlap, in which the previous secret signs as well; null if there is none.",
    )
    secret_activates_at = MomentField(
        allow_null=True,
        help_text="Activation of the prepared secret: from then on it signs the named header. Null if there is none.",
    )
    created = MomentField(source="created_at")

    class Meta:
        list_serializer_class = WebhookListSerializer

    def get_pending_url(self, webhook: Webhook) -> str | None:
        return webhook.pending_url if webhook.is_changing_url else None

    def get_failing_since(self, webhook: Webhook) -> str | None:
        health = WebhookHealth.of(webhook)
        is_failing = health is not None and health.is_failing(timezone.now())
        return format_time(health.failing_since) if health and health.failing_since and is_failing else None


class WebhookWithSecretSerializer(WebhookSerializer):
    secret = serializers.SerializerMethodField(
        help_text="The new secret, or the new key of another scheme, shown in this answer only. Null after the "
        "rotation of a key pair: its public key is in `public_keys`."
    )

    def get_secret(self, webhook: Webhook) -> str | None:
        scheme = self.context["view"].rotated_scheme
        newest = webhook.prepared_key(scheme) or webhook.current_key(scheme)
        key = None if known_signatures()[scheme].is_asymmetric else newest
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


class SenderSerializer(serializers.Serializer[Any]):
    user_agent = serializers.CharField(help_text="The header `User-Agent` of all requests.")
    addresses = serializers.ListField(
        child=serializers.CharField(),
        help_text="The networks and addresses from which requests come; empty if they are not fixed.",
    )


class OfferSerializer(serializers.Serializer[Any]):
    signatures = OfferedSignatureSerializer(many=True)
    retry_policies = OfferedPolicySerializer(many=True)
    accepted_statuses = serializers.ListField(child=serializers.CharField())
    orders = serializers.ListField(child=serializers.CharField())
    recoveries = serializers.ListField(child=serializers.CharField(), help_text="The first is the default.")
    filter_operators = serializers.ListField(child=serializers.CharField())
    sender = SenderSerializer(help_text="By which a receiver's firewall can recognise requests.")


class MailsSerializer(serializers.Serializer[Any]):
    mails = KnownField(
        choices=MailPreference.Mails.choices,
        help_text="How often you get mails about failing webhooks: `at_once` as a mail each, `daily` as a summary, or "
        "`none`.",
    )


class AuditEntrySerializer(serializers.Serializer[AuditEntry]):
    id = serializers.CharField()
    action = KnownField(choices=Action.choices)
    via = KnownField(choices=Via.choices, help_text="The interface that was used.")
    by = serializers.SerializerMethodField(
        help_text="The account, or the beginning of its API key; empty for staff, the service and other accounts."
    )
    changes = serializers.DictField(
        child=serializers.ListField(min_length=2, max_length=2),
        help_text="The old and the new value of each changed field.",
    )
    reason = serializers.CharField()
    reason_code = ReasonCodeField(
        source="reason", help_text="Code of the reason; `text` if a person wrote it, empty without a reason."
    )
    created = MomentField(source="created_at")

    def get_by(self, entry: AuditEntry) -> str:
        caller = self.context["view"].actor
        # The account of a key that belongs to no user is that of its creator, possibly staff.
        is_own = caller.scopes is None or caller.account == caller.owner
        return entry.name_for(caller.account if is_own else None)

    def to_representation(self, instance: AuditEntry) -> dict[str, Any]:
        shown = super().to_representation(instance)
        changes = shown["changes"]
        shown["changes"] = {AUDIT_NAMES.get(name, name): changes[name] for name in changes}
        return shown


class SettableFields(BodySerializer[Webhook]):
    """Fields that an owner sets at creation and may change later."""

    needed: ClassVar[Sequence[str]] = ()
    """The fields that a body cannot leave out."""

    url = UrlField(
        max_length=MAX_URL_LENGTH,
        help_text="URL of the receiver, verified before anything else is sent to it. The new URL of an active webhook "
        "is its `pending_url` until then; the current URL withdraws that.",
    )
    events = ShortListField(
        child=event_type_field(),
        source="event_types",
        min_length=1,
        max_length=MAX_EVENT_TYPES,
        help_text="The event types to send. Duplicates are removed.",
    )
    filter = FilterField(
        allow_null=True,
        help_text="A condition on the data of events; events that do not match are not sent. Null for no condition.",
    )
    description = TextField(
        allow_blank=True,
        max_length=MAX_DESCRIPTION_LENGTH,
        help_text="For your own use; not sent to the receiver.",
    )
    retry_notices = FlagField(help_text="Whether `webhook.retry` is sent after a failed attempt that will be retried.")
    max_in_flight = CountField(
        allow_null=True,
        min_value=1,
        help_text="Maximum number of concurrent requests. Null for the default, which an owner can only lower.",
    )
    rate_limit = RateField(
        allow_null=True,
        min_value=MIN_RATE,
        max_value=MAX_RATE,
        help_text="Maximum number of deliveries per second, retries included; the others wait. Null for no limit.",
    )

    signatures = ShortListField(
        child=NameField(known_signatures),
        min_length=1,
        max_length=MAX_SIGNATURES,
        help_text="The signature schemes; each request is signed with all of them. `native` is the scheme of this "
        "service, `standard` and `standard-ed25519` are those of Standard Webhooks.",
    )

    headers = HeadersInputField(
        help_text="Headers to add to each request, by name. They replace all earlier ones. Values are stored encrypted "
        f"and shown as `{REDACTED}`; send that to keep a stored value. A change of the URL's scheme, host or port "
        "removes the headers that are not given again. Headers given with a new URL are sent only there.",
    )
    basic_auth = CredentialsField(
        allow_null=True,
        help_text="Credentials for HTTP basic authentication, sent in the Authorization header; null removes them.",
    )

    retry_policy = NameField(
        lambda: ["", *known_policies()],
        allow_blank=True,
        max_length=MAX_POLICY_NAME_LENGTH,
        help_text="The name of the retry policy for new deliveries; empty for the default of the service.",
    )
    accepted_statuses = OptionField(
        choices=Webhook.AcceptedStatuses.choices,
        help_text="The statuses that confirm receipt. A verification always needs 200.",
    )
    order = OptionField(
        choices=Order.choices,
        help_text="Deliveries to send one after another: `none`, all of the `webhook`, or those of events with the "
        "same ordering `key`.",
    )
    recovery = OptionField(
        choices=Recovery.choices,
        help_text="Whether events that were missed during a failure are sent again `automatic`ally once the receiver "
        "answers, or on request (`manual`). With an order, only `manual`.",
    )

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()
        for name, field in fields.items():
            field.required = name in self.needed
        fields["max_in_flight"].max_value = most_in_flight()  # shown in the documentation; depends on the settings
        return fields


class NewWebhookSerializer(SettableFields):
    needed = ("url", "events")
    secret = SecretInputField(help_text="The key of the signatures, as UTF-8 text. Generated if omitted.")


class WebhookChangesSerializer(SettableFields):
    hints: ClassVar = {"secret": "Use rotate-secret to change the secret."}


class MailsChoiceSerializer(BodySerializer[Any]):
    mails = OptionField(choices=MailPreference.Mails.values, help_text="How often you want mails.")


class SchemeSerializer(BodySerializer[Webhook]):
    scheme = NameField(
        lambda: sorted({scheme.key_scheme for scheme in known_signatures().values()}),
        required=False,
        help_text="The signature scheme of the key. Default: `native`, whose key is the secret.",
    )


class NewSecretSerializer(SchemeSerializer):
    secret = SecretInputField(help_text="The new secret. Generated if omitted.")
    overlap_seconds = CountField(
        required=False,
        min_value=0,
        max_value=int(MAX_SECRET_OVERLAP.total_seconds()),
        help_text="Seconds during which the replaced key signs as well; 0 for no overlap. Default: a day, unless "
        "configured otherwise.",
    )
    activate_at = MomentInputField(
        required=False,
        help_text="When the new key begins to sign the named headers, at most 7 days ahead. Until then the old one "
        "signs them, and the new one `X-Webhook-Signature-Next`. Default: at once; receivers that read only the named "
        "header then refuse requests until they have the new secret.",
    )


class TestRequestSerializer(BodySerializer[Any]):
    webhook_id = TextField(help_text="The webhook to send to. It need not be subscribed to the type.")
    event_type = event_type_field(help_text="The type whose example is sent.")

    def validate_event_type(self, value: str) -> str:
        try:
            return event_types_for(self.context["view"].owner).get(value).name
        except UnknownEventTypeError as error:
            raise serializers.ValidationError(str(error)) from None


class TryFilterSerializer(BodySerializer[Any]):
    event_id = TextField(max_length=40, help_text="An event of the webhook's owner.")
    filter = FilterField(required=False, allow_null=True, help_text="Default: the filter of the webhook.")


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
    reason = KnownField(choices=REPORTED, help_text="The reason at the time of the event.")
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
