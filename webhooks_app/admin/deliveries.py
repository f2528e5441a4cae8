"""Deliveries in the admin, with their attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, DeliveryAttempt
from ..rate_limits import limit_test
from .actions import ActingAdmin
from .display import link_to, preformatted
from .filters import EventTypeOfDeliveryFilter
from .owned import ReadOnlyAdmin

if TYPE_CHECKING:
    BaseInline = admin.StackedInline[Any, Any]
else:
    BaseInline = admin.StackedInline


class AttemptInline(BaseInline):
    model = DeliveryAttempt
    extra = 0
    ordering = ("number",)
    fields = (
        ("number", "result", "started_at", "duration_ms"),
        "message",
        "url",
        ("timestamp", "signature"),
        "challenge",
        ("response_status", "retry_after", "peer"),
        "headers",
        "body",
    )
    readonly_fields = (
        "number",
        "result",
        "started_at",
        "duration_ms",
        "message",
        "url",
        "timestamp",
        "signature",
        "challenge",
        "response_status",
        "retry_after",
        "peer",
        "headers",
        "body",
    )

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may see a delivery may see what was tried for it."""
        return request.user.has_perm("webhooks_app.view_delivery")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description=_("response headers"))
    def headers(self, attempt: DeliveryAttempt) -> SafeString:
        return preformatted("\n".join(f"{name}: {value}" for name, value in attempt.response_headers))

    @admin.display(description=_("response body"))
    def body(self, attempt: DeliveryAttempt) -> SafeString:
        return preformatted(attempt.response_body)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin, ActingAdmin):
    owner_lookup = "webhook__owner"
    id_lookups = (("dlv", "pk"), ("evt", "event"), ("wh", "webhook"))
    search_help_text = _("An id of a delivery (dlv_…), event (evt_…) or webhook (wh_…), or the name of an account.")
    list_display = ("id", "type", "webhook", "kind", "state", "attempt_count", "next_attempt_at", "created_at")
    list_filter = ("state", "kind", EventTypeOfDeliveryFilter, "created_at")
    fields = (
        "id",
        "kind",
        ("state", "state_reason"),
        "event_link",
        "type",
        "webhook_link",
        ("attempt_count", "max_attempts"),
        ("next_attempt_at", "claimed_at", "expires_at"),
        ("created_at", "finished_at"),
        ("redelivery_link", "requested_by"),
    )
    inlines = (AttemptInline,)
    actions = ("redeliver",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("event", "webhook").defer("event__body")

    @admin.display(description=_("event type"))
    def type(self, delivery: Delivery) -> str:
        return delivery.event_type

    @admin.display(description=_("event"))
    def event_link(self, delivery: Delivery) -> SafeString | str:
        return self._link(delivery.event)

    @admin.display(description=_("webhook"))
    def webhook_link(self, delivery: Delivery) -> SafeString | str:
        webhook = delivery.webhook
        return str(webhook) if webhook.deleted_at else self._link(webhook)

    @admin.display(description=_("redelivery of"))
    def redelivery_link(self, delivery: Delivery) -> SafeString | str:
        return self._link(delivery.redelivery_of)

    def _link(self, item: Model | None) -> SafeString | str:
        return link_to(item, site=self.admin_site.name) if item else self.get_empty_value_display()

    def has_redeliver_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.redeliver_delivery")

    @admin.action(description=_("Redeliver"), permissions=["redeliver"])
    def redeliver(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        def redeliver(delivery: Delivery) -> None:
            if delivery.kind == Delivery.Kind.TEST:
                limit_test(delivery.webhook)
            delivery.redeliver(request.user)

        question = gettext("Send these events once more?")
        history = gettext("Redelivered the event.")
        return self.ask_and_carry_out(
            request, queryset, redeliver, action="redeliver", question=question, history=history
        )
