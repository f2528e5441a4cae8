"""Deliveries and replays: the log, redelivery, and the replay of missed events."""

# Actions receive the request, and the identifier of an object, even if they do not use them.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import django_filters
from django.utils import timezone
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from ..exceptions import WebhooksError
from ..models import ApiKey, Delivery, DeliveryAttempt, Replay, Webhook
from ..models.disclosure import UNREACHABLE
from ..models.hold import SILENT, Hold, HoldReason, holds_of
from ..models.keyset import WHOLE, Parts
from ..models.limits import MAX_EVENT_TYPES, MAX_RATE
from ..models.replay import LEAST_RATE
from ..operations import replays
from ..operations.rights import REDELIVER, REPLAY
from ..operations.sending import redeliver
from ..reasons import ReasonText
from .base import ApiViewSet, Operation
from .fields import (
    BodySerializer,
    EventTypeField,
    MomentField,
    MomentInputField,
    RateField,
    ReasonCodeField,
    ShortListField,
    TextField,
)
from .lists import BoundedFilterSet, DeliveryOfAnyWebhookFilter
from .serializers import QueuedEventSerializer

__all__ = ["DeliveryViewSet", "ReplayViewSet"]

READ = ApiKey.Scope.WEBHOOKS_READ.value
MAX_SELECTED = 100

RESULTS = [*DeliveryAttempt.Result.choices, (UNREACHABLE, "URL not reached")]

_UNLESS_PROBED = "Empty for tests and verifications."


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
    """A delivery, without the facts that its owner must not learn."""

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


class SelectionSerializer(BodySerializer[Any]):
    delivery_ids = ShortListField(
        child=TextField(),
        min_length=1,
        max_length=MAX_SELECTED,
        help_text="The deliveries whose events are sent once more. Use a replay for a larger number.",
    )


class RefusedSerializer(serializers.Serializer[Any]):
    delivery_id = serializers.CharField()
    reason = serializers.CharField(help_text="Human-readable reason why the event is not sent once more.")
    reason_code = ReasonCodeField(source="reason", help_text="Code of that reason.")


class RedeliveredSerializer(serializers.Serializer[Any]):
    queued = QueuedEventSerializer(many=True, help_text="The new deliveries, in the order of the request.")
    refused = RefusedSerializer(many=True)


class DeliveryViewSet(ApiViewSet):
    """The log of deliveries, and redelivery."""

    tag = "Deliveries"
    queryset = Delivery.objects.select_related("event", "webhook__lane", "queue_entry").defer("event__body")
    filterset_class = DeliveryOfAnyWebhookFilter
    lookup_url_kwarg = "delivery_id"
    operations: ClassVar = {
        "list": Operation(scope=READ, answer=DeliverySerializer, many=True),
        "retrieve": Operation(scope=READ, answer=DeliveryWithAttemptsSerializer),
        "redeliver": Operation(right=REDELIVER, answer=QueuedEventSerializer, status=202, conflicts=True, probes=True),
        "redeliver_selection": Operation(
            right=REDELIVER, request=SelectionSerializer, answer=RedeliveredSerializer, status=202
        ),
    }

    def list(self, request: Request) -> Response:
        """List your deliveries, the newest first."""
        return self.answer_page(self.get_queryset(), parts=_parts(request, self.owner))

    def retrieve(self, request: Request, delivery_id: str) -> Response:
        """Read a delivery with its attempts and the receiver's answers."""
        return self.answer(self.find(delivery_id))

    @action(detail=True, methods=["post"])
    def redeliver(self, request: Request, delivery_id: str) -> Response:
        """Redeliver the event of a delivery.

        This creates a new delivery of the same event, with the same bytes and its own attempts.
        """
        return self.answer(redeliver(self.find(delivery_id), actor=self.actor))

    @action(detail=False, methods=["post"], url_path="redeliver")
    def redeliver_selection(self, request: Request) -> Response:
        """Redeliver the events of several deliveries.

        Each delivery is queued or refused independently of the others.
        """
        ids = list(dict.fromkeys(self.validated()["delivery_ids"]))
        found = {delivery.pk: delivery for delivery in self.get_queryset().filter(pk__in=ids)}
        queued: list[Delivery] = []
        refused: list[dict[str, str]] = []
        for delivery_id in ids:
            if (delivery := found.get(delivery_id)) is None:
                refused.append({"delivery_id": delivery_id, "reason": ReasonText("delivery_unknown")})
                continue
            try:
                queued.append(redeliver(delivery, actor=self.actor))
            except WebhooksError as error:
                refused.append({"delivery_id": delivery_id, "reason": str(error)})
        return self.answer({"queued": queued, "refused": refused})


def _parts(request: Request, owner: Any) -> Parts:
    """Return the parts of the list: the requested replay or webhook of the owner, or all of the owner's webhooks."""
    params = request.query_params
    if "event_id" in params or "reference" in params:
        return WHOLE
    for name, others in (("replay", Replay.objects), ("webhook", Webhook.objects)):
        if (pk := params.get(f"{name}_id")) is not None:
            return Parts.of(name, others.owned_by(owner).filter(pk=pk))
    return Parts.of("webhook", Webhook.objects.owned_by(owner))


class OutcomeField(TextField):
    """An outcome of events. The operation checks all outcomes of a list at once."""

    component = "ReplayOutcome"

    def schema_extras(self) -> dict[str, Any]:
        return {"enum": list(Replay.Outcome.values)}


class StateField(TextField):
    component = "ReplayState"

    def schema_extras(self) -> dict[str, Any]:
        return {"enum": list(Replay.State.values)}


class NewReplaySerializer(BodySerializer[Replay]):
    webhook_id = TextField(help_text="The webhook to send to.")
    since = MomentInputField(
        required=False,
        help_text="Start of the period. Default: the start of the first failing period of the last week, or a week "
        "ago. Never before the creation of the webhook.",
    )
    until = MomentInputField(
        required=False, help_text="End of the period, later than `since`. Default and upper bound: now."
    )
    events = ShortListField(
        child=EventTypeField(),
        source="event_types",
        required=False,
        max_length=MAX_EVENT_TYPES,
        help_text="The event types to send, out of the subscribed ones. Default: all subscribed types.",
    )
    states = ShortListField(
        child=OutcomeField(),
        required=False,
        min_length=1,
        max_length=len(Replay.Outcome),
        help_text="Outcomes of the events at the webhook. `missed` events were never queued for it, for example while "
        "it was disabled. Default: all except `succeeded`.",
    )
    rate = RateField(
        required=False,
        allow_null=True,
        min_value=LEAST_RATE,
        max_value=MAX_RATE,
        help_text="Maximum number of deliveries per second. Live traffic always has priority.",
    )


class FailingPeriodSerializer(serializers.Serializer[Any]):
    since = serializers.CharField(help_text="Time when the first delivery was given up, or the webhook was stopped.")
    until = serializers.CharField(allow_null=True, help_text="Time of the next success; null if there was none.")
    given_up = serializers.IntegerField(help_text="Number of deliveries given up in between.")


class SampleSerializer(serializers.Serializer[Any]):
    event_id = serializers.CharField()
    type = serializers.CharField()
    created = serializers.CharField()
    state = OutcomeField()


class ReplaySerializer(serializers.Serializer[Replay]):
    id = serializers.CharField()
    webhook_id = serializers.CharField()
    state = StateField(
        help_text="`counting`, then `ready`; nothing is sent before the start. `stopped` if its webhook was stopped.",
    )
    state_reason = serializers.CharField(help_text="Human-readable reason for the stop.")
    state_reason_code = ReasonCodeField(source="state_reason", help_text="Code of that reason; empty without one.")
    since = MomentField()
    until = MomentField()
    events = serializers.ListField(
        child=serializers.CharField(),
        source="event_types",
        help_text="Empty for all subscribed types.",
    )
    states = serializers.ListField(child=OutcomeField())
    rate = serializers.FloatField(allow_null=True)
    matched = serializers.IntegerField(help_text="Number of events found by counting.")
    queued = serializers.IntegerField(help_text="Number of events queued so far.")
    failing = FailingPeriodSerializer(
        many=True, help_text="Failing periods of the webhook at the time of planning, the latest last."
    )
    sample = SampleSerializer(many=True, help_text="The first of the events found.")
    created = MomentField(source="created_at")
    started_at = MomentField(allow_null=True)
    finished_at = MomentField(allow_null=True)


class ReplayFilter(BoundedFilterSet):
    by_index = frozenset({"webhook_id"})
    webhook_id = django_filters.CharFilter(field_name="webhook", help_text="Only replays to this webhook.")
    state = django_filters.ChoiceFilter(choices=Replay.State.choices, help_text="Only replays in this state.")


class ReplayViewSet(ApiViewSet):
    """Replays of events to a webhook."""

    tag = "Replays"
    queryset = Replay.objects.select_related("webhook")
    filterset_class = ReplayFilter
    lookup_url_kwarg = "replay_id"
    operations: ClassVar = {
        "list": Operation(scope=READ, answer=ReplaySerializer, many=True),
        "create": Operation(
            right=REPLAY, request=NewReplaySerializer, answer=ReplaySerializer, status=201, conflicts=True
        ),
        "retrieve": Operation(scope=READ, answer=ReplaySerializer),
        "start": Operation(right=REPLAY, answer=ReplaySerializer, conflicts=True),
        "pause": Operation(right=REPLAY, answer=ReplaySerializer, conflicts=True),
        "resume": Operation(right=REPLAY, answer=ReplaySerializer, conflicts=True),
        "cancel": Operation(right=REPLAY, answer=ReplaySerializer, conflicts=True),
    }

    def list(self, request: Request) -> Response:
        """List your replays, the newest first."""
        return self.answer_page(self.get_queryset())

    def create(self, request: Request) -> Response:
        """Plan a replay.

        Its events are counted, in the background if that takes long. Nothing is sent before the start.
        """
        fields = self.validated()
        webhook = self.find(fields.pop("webhook_id"), self.owned(Webhook.objects.existing()))
        replay = replays.plan(webhook, actor=self.actor, **fields)
        location = request.build_absolute_uri(f"{request.path.rstrip('/')}/{replay.id}")
        return self.answer(replay, headers={"Location": location})

    def retrieve(self, request: Request, replay_id: str) -> Response:
        """Read a replay and its progress."""
        return self.answer(self.find(replay_id))

    @action(detail=True, methods=["post"])
    def start(self, request: Request, replay_id: str) -> Response:
        """Start a replay that is ready.

        Workers queue each event once, at the rate of the replay, and leave room for live traffic.
        """
        return self._perform(replays.start, replay_id)

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, replay_id: str) -> Response:
        """Pause a running replay.

        Events that are already queued are still sent.
        """
        return self._perform(replays.pause, replay_id)

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, replay_id: str) -> Response:
        """Resume a replay that was paused, or stopped together with its webhook."""
        return self._perform(replays.resume, replay_id)

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, replay_id: str) -> Response:
        """Cancel a replay permanently.

        Its queued deliveries are cancelled, except those in flight.
        """
        return self._perform(replays.cancel, replay_id)

    def _perform(self, operation: Callable[..., object], replay_id: str) -> Response:
        replay = self.find(replay_id)
        operation(replay, actor=self.actor)
        return self.answer(replay)
