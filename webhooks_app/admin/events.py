"""Events in the admin, with their routing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ..event_types import registry
from ..models import Delivery, Event, IdempotencyKey
from ..models.event import hidden_events
from ..pages.display import PARTS_OF_TYPE, breakable, coloured, delivery_rows, pretty_json
from ..pages.lists import EVENTS
from ..pages.recipients import Recipients, recipients_of
from ..pages.timeline import by_id, deliveries_read, timeline_of
from ..routing.report import Decision, decide
from .display import column, shows_deliveries, time_column
from .export import ExportingAdmin
from .owned import ReadOnlyAdmin, actor_of, manages_all, own_rows

MAX_RECIPIENTS = 50

OPTIONAL = ("references", "idempotency_key", "ordering_key")


class DecisionRow(NamedTuple):
    """Routing decision for one webhook, with links; "" where there is no page."""

    decision: Decision
    webhook_url: str
    delivery_url: str


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin, ExportingAdmin):
    listed = EVENTS
    list_display = ("id", "type_and_kind", "owner_name", "delivered", "created")
    exported_at_a_time = 50  # as in the list, which counts the recipients of a page within a limit
    exported = {  # noqa: RUF012
        "type_and_kind": {"type": "type", "is_test": "is_test"},
        "delivered": {"webhooks": "recipients.count", "delivered": "recipients.succeeded"},
    }
    list_select_related = ("owner",)
    fields = ("own_id", "type_link", "owner", "created", "references", "idempotency_key", "ordering_key")
    readonly_fields = fields

    def prepare(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Attach its recipients to each event."""
        if not shows_deliveries(request):
            return
        visible = own_rows(request, Delivery.objects.all(), "webhook__owner")
        recipients = recipients_of(visible, [event.pk for event in rows])
        for event in rows:
            event.recipients = recipients.get(event.pk)

    @admin.display(description=_("delivered"))
    def delivered(self, event: Any) -> SafeString | str:
        recipients: Recipients | None = getattr(event, "recipients", None)
        return coloured(recipients.state, recipients.in_words) if recipients else ""

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return the fields without the optional ones that the event lacks."""
        fields = super().get_fields(request, obj)
        return [name for name in fields if name not in OPTIONAL or (obj and self._has(obj, name))]

    def _has(self, event: Event, name: str) -> bool:
        return bool(getattr(self, name)(event) if hasattr(self, name) else getattr(event, name))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(_hidden(request)).defer("body")

    def hides_rows(self, request: HttpRequest) -> bool:
        return bool(_hidden(request))

    def page_context(self, request: HttpRequest, item: Event) -> dict[str, Any]:
        visible: Any = own_rows(request, item.deliveries.all(), "webhook__owner")
        read = deliveries_read(visible) if shows_deliveries(request) else []
        return {
            "pretty_body": pretty_json(item.body) if item.has_body else "",
            "shows_deliveries": shows_deliveries(request),
            "recipients": delivery_rows(
                by_id(visible, [each.pk for each in read[-MAX_RECIPIENTS:]]), url=self.delivery_url
            ),
            "has_more": len(read) > MAX_RECIPIENTS,
            "timeline": timeline_of(item, visible, read, url=self.delivery_url),
            "deliveries_url": self.deliveries_url(q=item.pk),
            "decisions": self._decisions(request, item),
        }

    def _decisions(self, request: HttpRequest, event: Event) -> list[DecisionRow]:
        """Return the routing decisions, if the user may view webhooks and deliveries."""
        if not (shows_deliveries(request) and request.user.has_perm("webhooks_app.view_webhook")):
            return []
        return [
            DecisionRow(
                decision,
                "" if decision.webhook.is_deleted else self.url("webhook_change", decision.webhook.pk),
                self.delivery_url(decision.delivery.pk) if decision.delivery else "",
            )
            for decision in decide(event, with_platform=manages_all(request))
        ]

    created = time_column("created_at", _("created"))
    references = column(_("references"), lambda event: ", ".join(event.references.values_list("value", flat=True)))

    @admin.display(description=_("idempotency key"))
    def idempotency_key(self, event: Event) -> str:
        key = IdempotencyKey.objects.filter(event=event).first()
        return key.key if key else ""

    @admin.display(description=_("type"))
    def type_and_kind(self, event: Event) -> SafeString:
        shown = breakable(event.type, PARTS_OF_TYPE)
        return format_html("{} ({})", shown, _("test")) if event.is_test else shown

    @admin.display(description=_("type"))
    def type_link(self, event: Event) -> SafeString | str:
        shown = self.type_and_kind(event)
        if event.type not in registry:
            return shown
        url = self.url("webhook_event_type", event.type)
        return format_html('<a href="{}">{}</a>', url, shown)


def _hidden(request: HttpRequest) -> Q:
    """Return the condition of the events that the owner policy hides, the same one throughout a request."""
    actor = actor_of(request)
    kept: tuple[Any, Q] = getattr(request, "webhooks_hidden", (None, Q()))
    if kept[0] is not actor:
        hidden = Q() if actor.manages_all else hidden_events(actor.owners)
        kept = request.webhooks_hidden = (actor, hidden)  # type: ignore[attr-defined]
    return kept[1]
