"""The view sets of webhooks, events and event types; those of deliveries and replays have modules of their own."""

# A view is called with the request, and those of one object with its identifier, whether it needs them or not.

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db import transaction
from django.http import Http404
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from ..decisions import decide
from ..emission import send_test_event
from ..event_types import registry
from ..exceptions import UnknownEventTypeError, WebhookStateError
from ..models import ApiKey, AuditEntry, Delivery, Event, Webhook
from ..models.sql import take_write_lock
from ..rate_limits import limit_test, limit_verification
from ..registration import enable_webhook, register_webhook, save_webhook
from ..verification import start_verification
from . import serializers
from .base import ApiViewSet, Operation
from .filters import AuditFilter, DeliveryFilter, EventFilter, WebhookFilter
from .pagination import WholeListPagination

READ = ApiKey.Scope.WEBHOOKS_READ.value
WRITE = ApiKey.Scope.WEBHOOKS_WRITE.value
TEST = ApiKey.Scope.WEBHOOKS_TEST.value
READ_EVENTS = ApiKey.Scope.EVENTS_READ.value


class WebhookViewSet(ApiViewSet):
    tag = "Webhooks"
    queryset = Webhook.objects.existing()
    filterset_class = WebhookFilter
    lookup_url_kwarg = "webhook_id"
    operations: ClassVar = {
        "list": Operation(scope=READ, answer=serializers.WebhookSerializer, many=True),
        "create": Operation(
            scope=WRITE,
            request=serializers.NewWebhookSerializer,
            answer=serializers.WebhookWithSecretSerializer,
            status=201,
            probes=True,
        ),
        "retrieve": Operation(scope=READ, answer=serializers.WebhookSerializer),
        "partial_update": Operation(
            scope=WRITE,
            request=serializers.WebhookChangesSerializer,
            body_required=False,
            answer=serializers.WebhookSerializer,
            probes=True,
        ),
        "destroy": Operation(scope=WRITE, status=204),
        "test": Operation(
            scope=TEST,
            request=serializers.TestRequestSerializer,
            answer=serializers.QueuedEventSerializer,
            status=202,
            conflicts=True,
            probes=True,
        ),
        "verify": Operation(
            scope=TEST, answer=serializers.QueuedDeliverySerializer, status=202, conflicts=True, probes=True
        ),
        "rotate_secret": Operation(
            scope=WRITE,
            request=serializers.NewSecretSerializer,
            body_required=False,
            answer=serializers.WebhookWithSecretSerializer,
        ),
        "revoke_previous_secret": Operation(scope=WRITE, answer=serializers.WebhookSerializer),
        "disable": Operation(scope=WRITE, answer=serializers.WebhookSerializer),
        "pause": Operation(scope=WRITE, answer=serializers.WebhookSerializer, conflicts=True),
        "resume": Operation(scope=WRITE, answer=serializers.WebhookSerializer),
        "enable": Operation(scope=WRITE, answer=serializers.WebhookSerializer, conflicts=True, probes=True),
        "deliveries": Operation(scope=READ, answer=serializers.DeliverySerializer, many=True),
        "audit": Operation(scope=READ, answer=serializers.AuditEntrySerializer, many=True),
    }

    def list(self, request: Request) -> Response:
        """List your webhooks, the newest first."""
        return self.answer_page(self.get_queryset().select_related("health"))

    def create(self, request: Request) -> Response:
        """Create a webhook.

        Its URL is verified at once, and events are sent to it from then on. The secret is shown in this answer only.
        """
        fields = self.validated()
        limit_verification(Webhook(owner_id=request.user.pk, url=fields["url"]))
        webhook = register_webhook(owner=request.user, **fields)
        location = request.build_absolute_uri(f"{request.path.rstrip('/')}/{webhook.id}")
        return self.answer(webhook, headers={"Location": location})

    def retrieve(self, request: Request, webhook_id: str) -> Response:
        """Read a webhook."""
        return self.answer(self.find(webhook_id, self.get_queryset().select_related("health")))

    @transaction.atomic
    def partial_update(self, request: Request, webhook_id: str) -> Response:
        """Change a webhook.

        A new URL is verified before anything else is sent to it.
        """
        changes = self.validated()
        webhook = self.locked(webhook_id)
        if changes.get("url", webhook.url) != webhook.url:
            webhook.url = changes["url"]
            limit_verification(webhook)
        for name, value in changes.items():
            setattr(webhook, name, value)
        return self.answer(save_webhook(webhook))

    @transaction.atomic
    def destroy(self, request: Request, webhook_id: str) -> Response:
        """Delete a webhook.

        What is waiting to be sent to it is cancelled; what was sent is kept in the log for a while.
        """
        self.locked(webhook_id).soft_delete()
        return Response(status=204)

    @action(detail=False, methods=["post"])
    def test(self, request: Request) -> Response:
        """Send a test event.

        It carries the type's example and goes the way of every event: signed, retried and logged. The webhook may
        still be pending, but not disabled.
        """
        fields = self.validated()
        webhook = self.find(fields["webhook_id"])
        limit_test(webhook)
        return self.answer(send_test_event(webhook, fields["event_type"]))

    @action(detail=True, methods=["post"])
    @transaction.atomic
    def verify(self, request: Request, webhook_id: str) -> Response:
        """Verify a webhook again.

        Until it has answered the challenge, no event is sent to it.
        """
        webhook = self.locked(webhook_id)
        limit_verification(webhook)
        return self.answer(start_verification(webhook))

    @action(detail=True, methods=["post"], url_path="rotate-secret")
    @transaction.atomic
    def rotate_secret(self, request: Request, webhook_id: str) -> Response:
        """Replace a webhook's secret.

        Every attempt from now on is signed with the new one, which is shown in this answer only. Until the overlap
        ends, the replaced one signs too, in a header of its own; an older one signs nothing any more. Naming the
        current secret replaces nothing, so that a request whose answer was lost can be repeated.
        """
        fields = self.validated()
        seconds = fields.get("overlap_seconds")
        webhook = self.locked(webhook_id)
        webhook.rotate_secret(fields.get("secret"), overlap=None if seconds is None else timedelta(seconds=seconds))
        return self.answer(webhook)

    @action(detail=True, methods=["post"], url_path="revoke-previous-secret")
    @transaction.atomic
    def revoke_previous_secret(self, request: Request, webhook_id: str) -> Response:
        """End the overlap of a rotation at once.

        Every attempt from now on is signed with the current secret alone. It changes nothing where no overlap is left.
        """
        webhook = self.locked(webhook_id)
        webhook.revoke_previous_secret()
        return self.answer(webhook)

    @action(detail=True, methods=["post"])
    @transaction.atomic
    def disable(self, request: Request, webhook_id: str) -> Response:
        """Disable a webhook.

        What is waiting to be sent to it is cancelled. It changes nothing for one that is disabled already.
        """
        webhook = self.locked(webhook_id)
        if webhook.status != Webhook.Status.DISABLED:
            webhook.disable("Disabled by its owner.")
        return self.answer(webhook)

    @action(detail=True, methods=["post"])
    @transaction.atomic
    def enable(self, request: Request, webhook_id: str) -> Response:
        """Enable a disabled webhook.

        It is verified first. It changes nothing for one that is active or pending.
        """
        webhook = self.locked(webhook_id)
        if webhook.status == Webhook.Status.FAILED:
            raise WebhookStateError(f"Webhook {webhook.id} is not disabled: it failed its verification. Verify it.")
        if webhook.status == Webhook.Status.DISABLED:
            limit_verification(webhook)
            enable_webhook(webhook)
        return self.answer(webhook)

    @action(detail=True, methods=["post"])
    @transaction.atomic
    def pause(self, request: Request, webhook_id: str) -> Response:
        """Pause a webhook.

        What waits, and every event from now on, is held until it is resumed; what is in flight ends. It changes nothing
        for one that is paused already.
        """
        webhook = self.locked(webhook_id)
        if webhook.paused_at is None:
            webhook.pause()
        return self.answer(webhook)

    @action(detail=True, methods=["post"])
    @transaction.atomic
    def resume(self, request: Request, webhook_id: str) -> Response:
        """Resume a paused webhook.

        What was held is sent, the longest due first. It changes nothing for one that is not paused.
        """
        webhook = self.locked(webhook_id)
        if webhook.paused_at is not None:
            webhook.resume()
        return self.answer(webhook)

    @action(detail=True, methods=["get"], filterset_class=DeliveryFilter)
    def deliveries(self, request: Request, webhook_id: str) -> Response:
        """List what was sent to a webhook, the newest first."""
        deliveries = self.owned(Delivery.objects.filter(webhook=self.find(webhook_id)))
        return self.answer_page(deliveries.select_related("event").defer("event__body"))

    @action(detail=True, methods=["get"], filterset_class=AuditFilter)
    def audit(self, request: Request, webhook_id: str) -> Response:
        """List who did what to a webhook, the latest first."""
        return self.answer_page(self.owned(AuditEntry.objects.about(self.find(webhook_id))))

    def locked(self, webhook_id: str) -> Webhook:
        """Return the webhook, and let nobody else change it until the transaction ends."""
        rows = self.get_queryset().select_for_update()
        take_write_lock(rows.db, Webhook)
        webhook: Webhook = self.find(webhook_id, rows)
        return webhook


class EventViewSet(ApiViewSet):
    tag = "Events"
    queryset = Event.objects.all()
    filterset_class = EventFilter
    lookup_url_kwarg = "event_id"
    operations: ClassVar = {
        "list": Operation(scope=READ_EVENTS, answer=serializers.EventSerializer, many=True),
        "retrieve": Operation(scope=READ_EVENTS, answer=serializers.EventWithDataSerializer),
        "decisions": Operation(scope=READ_EVENTS, answer=serializers.DecisionSerializer, many=True),
    }

    def list(self, request: Request) -> Response:
        """List your events, the newest first."""
        return self.answer_page(self.get_queryset().defer("body"))

    def retrieve(self, request: Request, event_id: str) -> Response:
        """Read an event with its data."""
        return self.answer(self.find(event_id))

    @action(detail=True, methods=["get"], filterset_class=None, pagination_class=WholeListPagination)
    def decisions(self, request: Request, event_id: str) -> Response:
        """List your webhooks with the reason why each was sent an event, or was not.

        Told as things were when it happened; at most 200, first those that it was sent to.
        """
        return self.answer_page(decide(self.find(event_id, self.get_queryset().defer("body"))))


class EventTypeViewSet(ApiViewSet):
    pagination_class = WholeListPagination
    tag = "Event types"
    lookup_url_kwarg = "name"
    operations: ClassVar = {
        "list": Operation(answer=serializers.EventTypeSerializer, many=True),
        "retrieve": Operation(answer=serializers.EventTypeSerializer),
    }

    def list(self, request: Request) -> Response:
        """List the event types."""
        return self.answer_page(registry)

    def retrieve(self, request: Request, name: str) -> Response:
        """Read an event type: the JSON Schema of its data, and an example."""
        try:
            return self.answer(registry.get(name))
        except UnknownEventTypeError:
            raise Http404 from None
