"""Deliveries: the log, and redelivery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from ..exceptions import WebhooksError
from ..models import Delivery, DeliveryAttempt
from ..models.hold import SILENT, Hold, HoldReason, holds_of
from ..operations.rights import READ
from ..operations.sending import redeliver
from ..pages.actions import DELIVERY
from ..pages.display import RESULTS
from ..pages.lists import DELIVERIES
from ..reasons import ReasonText
from .base import ApiViewSet, Operation
from .fields import (
    BodySerializer,
    KnownField,
    MomentField,
    ReasonCodeField,
    ShortListField,
    TextField,
)
from .serializers import QueuedEventSerializer

__all__ = ["DeliveryViewSet"]

MAX_SELECTION = 100

_UNLESS_PROBED = "Empty for tests and verifications."


class HoldSerializer(serializers.Serializer[Hold]):
    reason = KnownField(choices=[(reason.value, reason.label) for reason in HoldReason if reason not in SILENT])
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
    """A delivery, as its owner may see it."""

    class Meta:
        list_serializer_class = DeliveryListSerializer

    id = serializers.CharField()
    webhook_id = serializers.CharField()
    event_id = serializers.CharField(allow_null=True, help_text="Null for a verification, which is not an event.")
    event_type = serializers.CharField()
    kind = KnownField(choices=Delivery.Kind.choices)
    state = KnownField(choices=Delivery.State.choices)
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
    purpose = KnownField(
        choices=Delivery.Purpose.choices,
        allow_null=True,
        help_text="`recovery` for a recovery attempt: a missed event, sent again with a single request to see whether "
        "the receiver answers. Null for all others.",
    )


class AttemptSerializer(serializers.Serializer[DeliveryAttempt]):
    id = serializers.CharField()
    number = serializers.IntegerField()
    result = KnownField(
        choices=list(RESULTS.items()),
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
        max_length=MAX_SELECTION,
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
    queryset = Delivery.objects.with_related()
    listed = DELIVERIES
    lookup_url_kwarg = "delivery_id"
    table = DELIVERY
    record = DeliverySerializer
    operations: ClassVar = {
        "list": Operation(scope=READ, answer=DeliverySerializer, many=True),
        "retrieve": Operation(scope=READ, answer=DeliveryWithAttemptsSerializer),
        "redeliver": Operation(
            action=DELIVERY["redeliver"], answer=QueuedEventSerializer, answers_with_result=True, status=202
        ),
        "retry": Operation(action=DELIVERY["retry"], answer=DeliverySerializer, status=202),
        "redeliver_selection": Operation(
            right=DELIVERY["redeliver"].right, request=SelectionSerializer, answer=RedeliveredSerializer, status=202
        ),
    }

    def list(self, request: Request) -> Response:
        """List your deliveries, the newest first."""
        return self.answer_page(self.get_queryset())

    def retrieve(self, request: Request, delivery_id: str) -> Response:
        """Read a delivery with its attempts and the receiver's answers."""
        return self.answer(self.find(delivery_id))

    @action(detail=False, methods=["post"], url_path="redeliver")
    def redeliver_selection(self, request: Request) -> Response:
        """Redeliver the events of several deliveries.

        Each delivery is queued or refused independently of the others.
        """
        ids = list(dict.fromkeys(self.validated()["delivery_ids"]))
        deliveries = {delivery.pk: delivery for delivery in self.get_queryset().filter(pk__in=ids)}
        queued: list[Delivery] = []
        refused: list[dict[str, str]] = []
        for delivery_id in ids:
            if (delivery := deliveries.get(delivery_id)) is None:
                refused.append({"delivery_id": delivery_id, "reason": ReasonText("delivery_unknown")})
                continue
            try:
                queued.append(redeliver(delivery, actor=self.actor))
            except WebhooksError as error:
                refused.append({"delivery_id": delivery_id, "reason": str(error)})
        return self.answer({"queued": queued, "refused": refused})
