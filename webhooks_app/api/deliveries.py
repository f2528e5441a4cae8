"""Deliveries: the log, and redelivery."""

# Actions receive the request, and the identifier of an object, even if they do not use them.

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from ..exceptions import WebhooksError
from ..models import ApiKey, Delivery, Replay, Webhook
from ..models.keyset import WHOLE, Parts
from ..operations.rights import REDELIVER
from ..operations.sending import redeliver
from .base import ApiViewSet, Operation
from .fields import ShortListField, TextField
from .filters import DeliveryOfAnyWebhookFilter
from .known_fields import BodySerializer
from .serializers import DeliverySerializer, DeliveryWithAttemptsSerializer, QueuedEventSerializer

__all__ = ["DeliveryViewSet"]

READ = ApiKey.Scope.WEBHOOKS_READ.value
MAX_SELECTED = 100


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
        return self.answer(self.find(delivery_id, self.get_queryset().prefetch_related("attempts")))

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
                refused.append({"delivery_id": delivery_id, "reason": "There is no such delivery."})
                continue
            try:
                queued.append(redeliver(delivery, actor=self.actor))
            except WebhooksError as error:
                refused.append({"delivery_id": delivery_id, "reason": str(error)})
        return self.answer({"queued": queued, "refused": refused})


def _parts(request: Request, owner: Any) -> Parts:
    """Return the parts of the list: the requested replay or webhook of the owner, or all of the owner's webhooks."""
    params = request.query_params
    if "event_id" in params:
        return WHOLE
    for name, others in (("replay", Replay.objects), ("webhook", Webhook.objects)):
        if (pk := params.get(f"{name}_id")) is not None:
            return Parts.of(name, others.owned_by(owner).filter(pk=pk))
    return Parts.of("webhook", Webhook.objects.owned_by(owner))
