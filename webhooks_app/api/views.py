"""View sets of webhooks, events and event types; deliveries and replays have their own modules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, cast

from django.http import Http404, HttpRequest
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from ..exceptions import UnknownEventTypeError
from ..models import AuditEntry, Delivery, Event, MailPreference, Webhook
from ..models.webhook_secret import SECRET
from ..operations import lifecycle, rights, rotation
from ..operations.mails import choose_mails
from ..operations.registration import describe_offer, register_webhook, update_webhook
from ..operations.rights import READ, READ_EVENTS
from ..operations.sending import send_test_event
from ..owners import event_types_for, hidden_types
from ..pages.actions import WEBHOOK
from ..pages.lists import AUDIT, DELIVERIES, EVENTS, WEBHOOKS
from ..routing.preview import try_filter
from ..routing.report import decide
from . import serializers
from .authentication import require_scope
from .base import ApiViewSet, Operation
from .deliveries import DeliverySerializer
from .emission import (
    Emission,
    EmittedBatchSerializer,
    EmitThrottle,
    EventBatch,
    EventParser,
    NewEvent,
    emit_at_once,
)
from .idempotency import key_of
from .lists import WholeListPagination

__all__ = ["EventTypeViewSet", "EventViewSet", "WebhookViewSet"]


OF_ONE_KEY = {
    "activate_secret": rotation.activate_secret,
    "withdraw_secret": rotation.withdraw_secret,
    "revoke_previous_secret": rotation.revoke_previous_secret,
}
"""The actions on prepared and replaced keys, which pages perform on those of all schemes."""


class WebhookViewSet(ApiViewSet):
    """Webhooks, and the operations on one of them."""

    tag = "Webhooks"
    rotated_scheme = SECRET
    """The signature scheme whose key this request rotates."""
    queryset = Webhook.objects.existing()
    listed = WEBHOOKS
    lookup_url_kwarg = "webhook_id"
    table = WEBHOOK
    record = serializers.WebhookSerializer
    operations: ClassVar = {
        "list": Operation(scope=READ, answer=serializers.WebhookSerializer, many=True),
        "create": Operation(
            right=rights.REGISTER_WEBHOOK,
            request=serializers.NewWebhookSerializer,
            answer=serializers.WebhookWithSecretSerializer,
            status=201,
            probes=True,
        ),
        "retrieve": Operation(scope=READ, answer=serializers.WebhookSerializer),
        "partial_update": Operation(
            right=rights.UPDATE_WEBHOOK,
            request=serializers.WebhookChangesSerializer,
            body_required=False,
            answer=serializers.WebhookSerializer,
            probes=True,
        ),
        "destroy": Operation(action=WEBHOOK["delete"], status=204),
        "test": Operation(
            action=WEBHOOK["send_test"],
            request=serializers.TestRequestSerializer,
            answer=serializers.QueuedEventSerializer,
            status=202,
        ),
        "verify": Operation(
            action=WEBHOOK["verify"], answer=serializers.QueuedDeliverySerializer, answers_with_result=True, status=202
        ),
        "rotate_secret": Operation(
            action=WEBHOOK["rotate_secret"],
            run=rotation.rotate_secret,
            request=serializers.NewSecretSerializer,
            body_required=False,
            answer=serializers.RotatedWebhookSerializer,
        ),
        **{
            name: Operation(
                action=WEBHOOK[name],
                run=run,
                request=serializers.SchemeSerializer,
                body_required=False,
                answer=serializers.WebhookSerializer,
            )
            for name, run in OF_ONE_KEY.items()
        },
        "choices": Operation(scope=READ, answer=serializers.OfferSerializer),
        "mails": Operation(right=rights.VIEW_WEBHOOKS, answer=serializers.MailsSerializer),
        "choose_mails": Operation(
            right=rights.UPDATE_WEBHOOK,
            request=serializers.MailsChoiceSerializer,
            answer=serializers.MailsSerializer,
        ),
        "try_filter": Operation(
            scope=READ_EVENTS, request=serializers.TryFilterSerializer, answer=serializers.TriedFilterSerializer
        ),
        "deliveries": Operation(scope=READ, answer=DeliverySerializer, many=True),
        "audit": Operation(scope=READ, answer=serializers.AuditEntrySerializer, many=True),
    }

    def authorize_body(self, request: Request) -> None:
        # Without a filter in the body, the answer quotes that of the webhook.
        if self.action == "try_filter" and "filter" not in request.data:
            require_scope(self.actor, READ)

    def list(self, request: Request) -> Response:
        """List your webhooks, the newest first."""
        return self.answer_page(self.get_queryset().select_related("health").prefetch_related("signing_keys"))

    def create(self, request: Request) -> Response:
        """Create a webhook.

        Its URL is verified immediately; after that, events are sent to it. The secret is shown in this answer only.
        """
        webhook = register_webhook(owner=self.owner, actor=self.actor, **self.validated())
        location = request.build_absolute_uri(f"{request.path.rstrip('/')}/{webhook.id}")
        return self.answer(webhook, headers={"Location": location})

    def retrieve(self, request: Request, webhook_id: str) -> Response:
        """Read a webhook."""
        return self.answer(self.find(webhook_id, self.get_queryset().select_related("health")))

    def partial_update(self, request: Request, webhook_id: str) -> Response:
        """Change a webhook.

        A new URL is verified before any other request to it. Until then, events of an active webhook go on to its
        current URL, and the new one is its `pending_url`. If the verification fails, the webhook keeps its URL, and
        `status_reason` has the reason. Another URL replaces the pending one, and the current one withdraws it. To send
        nothing more to the current URL, pause the webhook first.
        """
        webhook = self.find(webhook_id)
        body, changes = cast("dict[str, Any]", request.data), self.validated(webhook)
        if body.get("pending_url") and changes.get("url") == webhook.url:
            del changes["url"]  # a record that is sent back as it was read
        update_webhook(webhook, actor=self.actor, **changes)
        return self.answer(webhook)

    def destroy(self, request: Request, webhook_id: str) -> Response:
        """Delete a webhook.

        Pending deliveries are cancelled. The log of its deliveries is kept for a while.
        """
        lifecycle.delete(self.find(webhook_id), actor=self.actor)
        return Response(status=204)

    @action(detail=False, methods=["post"])
    def test(self, request: Request) -> Response:
        """Send a test event.

        It contains the example of the event type, and is signed, retried and logged like every event. The webhook may
        be pending, but not disabled.
        """
        fields = self.validated()
        webhook = self.find(fields["webhook_id"])
        return self.answer(send_test_event(webhook, fields["event_type"], actor=self.actor))

    @action(detail=False, methods=["get"])
    def choices(self, request: Request) -> Response:
        """Read the available choices for webhooks.

        The answer contains the offered signature schemes, retry policies, statuses and filter operators.
        """
        return self.answer(describe_offer())

    @action(detail=False, methods=["get"])
    def mails(self, request: Request) -> Response:
        """Read how often you get mails about your webhooks and API keys."""
        return self.answer({"mails": MailPreference.objects.of(self.owner)})

    @mails.mapping.patch
    def choose_mails(self, request: Request) -> Response:
        """Choose how often you get mails about your webhooks and API keys.

        A summary is sent once a day if there is something to tell. The expiry of an API key is always told at once,
        unless you want no mails.
        """
        choose_mails(self.owner, self.validated()["mails"], actor=self.actor)
        return self.answer({"mails": MailPreference.objects.of(self.owner)})

    @action(detail=True, methods=["post"], url_path="rotate-secret")
    def rotate_secret(self, request: Request, webhook_id: str) -> Response:
        """Rotate a webhook's secret, or its key of another signature scheme.

        By default, all further attempts are signed with the new key at once. With `activate_at`, the new key is
        prepared: until then the old one signs as before, and the new one adds its signature. A secret is shown in this
        answer only; for a key pair, the answer contains the public key. From the activation until the overlap ends,
        the replaced key signs as well; an even older key no longer signs. Sending the current secret changes nothing
        and withdraws a prepared one, so the request can be repeated if its answer was lost.
        """
        fields = self.validated()
        seconds = fields.get("overlap_seconds")
        overlap = None if seconds is None else timedelta(seconds=seconds)
        scheme = self.rotated_scheme = fields.get("scheme", SECRET)
        return self.perform(
            webhook_id,
            secret=fields.get("secret"),
            overlap=overlap,
            scheme=scheme,
            activate_at=fields.get("activate_at"),
        )

    @action(detail=True, methods=["post"], url_path="try-filter")
    def try_filter(self, request: Request, webhook_id: str) -> Response:
        """Try a filter on a past event.

        Nothing is saved or sent. The answer contains the first condition that does not hold. Without a `filter` in the
        body, it quotes the filter of the webhook, and also requires the scope `webhooks:read`.
        """
        webhook = self.find(webhook_id)
        fields = self.validated()
        event = self.find(fields["event_id"], self.owned(Event.objects.all()))
        mismatch = try_filter(webhook, event, fields.get("filter", webhook.filter))
        return self.answer({"matches": mismatch is None, "mismatch": str(mismatch or "")})

    @action(detail=True, methods=["get"], listed=DELIVERIES, lookup_filter="webhook_id")
    def deliveries(self, request: Request, webhook_id: str) -> Response:
        """List the deliveries to a webhook, the newest first."""
        webhook = self.find(webhook_id)
        return self.answer_page(self.owned(Delivery.objects.with_related()), webhook_id=webhook.pk)

    @action(detail=True, methods=["get"], listed=AUDIT)
    def audit(self, request: Request, webhook_id: str) -> Response:
        """List the audit entries of a webhook, the latest first."""
        return self.answer_page(self.owned(AuditEntry.objects.all()), subject=self.find(webhook_id).pk)


POLICIES = frozenset(name for name in vars(APIView) if name.endswith("_classes") or name == "content_negotiation_class")
"""The attributes of a view that decide who may call it, and how its requests and answers are read and written."""


class EventViewSet(ApiViewSet):
    """Events, and their emission by other services."""

    tag = "Events"
    queryset = Event.objects.all()
    parser_classes = (EventParser,)
    listed = EVENTS
    lookup_url_kwarg = "event_id"
    operations: ClassVar = {
        "list": Operation(scope=READ_EVENTS, answer=serializers.EventSerializer, many=True),
        "create": Operation(
            right=rights.EMIT_EVENT,
            request=NewEvent,
            batch=EventBatch,
            answer=serializers.EventSerializer,
            batch_answer=EmittedBatchSerializer,
            status=202,
            stores_answer=False,  # the events keep the key
        ),
        "retrieve": Operation(scope=READ_EVENTS, answer=serializers.EventWithDataSerializer),
        "decisions": Operation(scope=READ_EVENTS, answer=serializers.DecisionSerializer, many=True),
    }

    def list(self, request: Request) -> Response:
        """List your events, the newest first."""
        return self.answer_page(self.get_queryset().defer("body"))

    def hides_rows(self) -> bool:
        return bool(hidden_types(self.owner))

    def respond(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        # A subclass, or a policy given to `as_view`, may change any step, so these take them all.
        is_own = type(self) is EventViewSet and POLICIES.isdisjoint(vars(self))
        emits = is_own and request.method == "POST" and self.action_map.get("post") == "create"
        if emits:
            self.action = "create"  # as initialize_request does, which the short way leaves out
        response = emit_at_once(self, request) if emits else None
        return super().respond(request, *args, **kwargs) if response is None else response

    def get_throttles(self) -> Any:
        return [EmitThrottle()] if self.action == "create" else super().get_throttles()

    def create(self, request: Request) -> Response:
        """Emit events, with a service key.

        The body is one event, or `{"events": [...]}` with up to 100 events. Either all events are recorded, or none.
        The header `Idempotency-Key` makes the request safe to repeat; each event can have its own key instead.
        """
        emission = Emission(cast("dict[str, Any]", request.data), key_of(request))
        return Response(emission.emit(self.actor), status=202)

    def retrieve(self, request: Request, event_id: str) -> Response:
        """Read an event with its data."""
        return self.answer(self.find(event_id))

    @action(detail=True, methods=["get"], listed=None, pagination_class=WholeListPagination)
    def decisions(self, request: Request, event_id: str) -> Response:
        """List your webhooks, each with the reason why the event was sent to it or not.

        The reasons are those at the time of the event. At most 200 webhooks are listed, the recipients first.
        """
        return self.answer_page(decide(self.find(event_id)))


class EventTypeViewSet(ApiViewSet):
    """The event types that an owner can subscribe to."""

    pagination_class = WholeListPagination
    tag = "Event types"
    lookup_url_kwarg = "name"
    operations: ClassVar = {
        "list": Operation(answer=serializers.EventTypeSerializer, many=True),
        "retrieve": Operation(answer=serializers.EventTypeSerializer),
    }

    def list(self, request: Request) -> Response:
        """List the event types that you can subscribe to."""
        return self.answer_page(event_types_for(self.owner))

    def retrieve(self, request: Request, name: str) -> Response:
        """Read an event type, with the JSON Schema of its data and an example."""
        try:
            return self.answer(event_types_for(self.owner).get(name))
        except UnknownEventTypeError:
            raise Http404 from None
