"""Deliveries in the admin: their list, and a page with their attempts that is refreshed until the result is final."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, DeliveryAttempt
from ..models.hold import SILENT, HoldReason, holds_of
from ..pages.actions import DELIVERY
from ..pages.display import (
    PARTS_OF_TYPE,
    breakable,
    coloured,
    delivered_later,
    grouped,
    last_attempts,
    link_to_delivery,
    next_try,
    sent_to,
    state_and_result,
)
from ..pages.explanation import policy_in_words, waiting_for, why_cancelled
from ..pages.lists import DELIVERIES
from ..protocol.ids import order_of_creation
from ..replays.missed import delivered_instead
from .actions import ActingAdmin
from .display import column, delivery_urls, link_to, shown_transcript, time_column, url_of, webhook_with_url
from .export import ExportingAdmin, account_of, shown_account_of
from .owned import ReadOnlyAdmin, knows_owners

MAX_REDELIVERIES = 10


class DeliveryPage(ReadOnlyAdmin, ActingAdmin):
    """Base of the admin of deliveries."""

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("<path:object_id>/live/", self.live_view, "live"), *super().get_urls()]

    has_live_buttons = True

    def page_context(self, request: HttpRequest, item: Delivery) -> dict[str, Any]:
        live = {"live_url": self.page_url(item, "live"), **self._result(request, item)}
        return {**super().page_context(request, item), "subtitle": None, "crumb": self.crumb_of(item), **live}

    def crumb_of(self, item: Delivery) -> str:
        return item.event_type

    def live_view(self, request: HttpRequest, object_id: str) -> TemplateResponse:
        """Return the current state of a delivery with its attempts."""
        delivery = self.viewed(request, object_id)
        return TemplateResponse(request, "admin/webhooks_app/delivery/result.html", self._result(request, delivery))

    def _result(self, request: HttpRequest, delivery: Delivery) -> dict[str, Any]:
        """Return the state with its reason, the attempts, and the later deliveries of the same event."""
        url = delivery_urls(self.admin_site.name)
        waits = waiting_for(delivery, url=url)
        reason = why_cancelled(delivery) or waits
        later = Delivery.objects.filter(redelivery_of=delivery.pk).order_by("-pk").values_list("pk", flat=True)
        state = coloured(delivery.state, state_and_result(delivery))
        return {
            "delivery": delivery,
            "is_done": delivery.state != Delivery.State.PENDING,
            "standing": format_html("{}{}{}", state, ". " if reason else "", reason),
            "attempts": shown_transcript(request, delivery, site=self.admin_site.name),
            "waiting_for": waits,
            "steering": self.buttons(request, delivery),
            "redeliveries": [link_to_delivery(pk, url) for pk in later[:MAX_REDELIVERIES]],
        }


def _hold(delivery: Any) -> str | None:
    """Return the reason why a delivery is not sent now, other than its time."""
    hold = delivery.shown_hold
    return hold.reason.value if hold and hold.reason not in (HoldReason.NOT_DUE, *SILENT) else None


def _next_attempt_at(delivery: Any) -> datetime | None:
    hold = delivery.shown_hold
    if hold is None:
        return cast("datetime | None", delivery.due_at)
    return cast("datetime | None", hold.until if hold.reason == HoldReason.NOT_DUE else None)


def _sent_to(delivery: Any) -> str:
    return str((delivery.last_attempt or delivery.webhook).url)


@admin.register(Delivery)
class DeliveryAdmin(DeliveryPage, ExportingAdmin):
    listed = DELIVERIES
    list_display = (*("created", "state_and_answer", "next_try", "type_and_kind", "target"),)
    exported = {  # noqa: RUF012
        "state_and_answer": {
            "state": "state",
            "result": "last_result",
            "status_code": "last_attempt.response_status",
            "duration_ms": "last_attempt.duration_ms",
            "attempts": "attempt_count",
        },
        "next_try": {"next_attempt_at": _next_attempt_at, "hold": _hold},
        "type_and_kind": {"event_id": "event_id", "event_type": "event_type", "kind": "kind"},
        "target": {"webhook_id": "webhook_id", "url": _sent_to, "account": "owner_label"},
    }
    fields = (
        "own_id",
        "kind",
        "event_link",
        "type",
        "webhook_link",
        ("attempt_count", "max_attempts"),
        "policy",
        ("created", "finished"),
        *("expires_at", "redelivery_link", "replay_link", "requested_by", "purpose"),
    )
    optional = {  # noqa: RUF012
        "expires_at": "expires_at",
        "redelivery_link": "redelivery_of_id",
        "replay_link": "replay_id",
        "requested_by": "requested_by_id",
        "purpose": "purpose",
    }
    table = DELIVERY
    actions = page_actions = tuple(DELIVERY)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: Any = super().get_queryset(request)
        related: QuerySet[Any] = rows.with_related().select_related("webhook__owner")
        return related

    def prepare(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Attach to each delivery its last attempt, its success by another way, and why it is not sent now."""
        last, successes, names_owners = last_attempts(rows), delivered_instead(rows), knows_owners(request)
        for delivery, hold in zip(rows, holds_of(rows, now=timezone.now()), strict=True):
            delivery.shown_hold = hold
            delivery.last_attempt = last.get(delivery.pk)
            delivery.delivered_instead = successes.get(delivery.pk)
            if names_owners:
                delivery.owner_label = account_of(delivery.webhook)

    created = time_column("created_at", _("created"))
    finished = time_column("finished_at", _("finished"))
    policy = column(_("retry policy"), policy_in_words)
    type = column(_("event type"), lambda delivery: delivery.event_type)

    @admin.display(description=_("event type"))
    def type_and_kind(self, delivery: Delivery) -> SafeString:
        shown = breakable(delivery.event_type, PARTS_OF_TYPE)
        if delivery.event is not None:
            shown = link_to(delivery.event, site=self.admin_site.name, text=shown)
        note = delivery.get_kind_display() if delivery.kind == Delivery.Kind.TEST else delivery.get_purpose_display()
        return format_html("{} ({})", shown, note) if note else shown

    @admin.display(description=_("webhook"))
    def target(self, delivery: Any) -> SafeString:
        shown = url_of(delivery.webhook, _sent_to(delivery), site=self.admin_site.name)
        owner = shown_account_of(delivery.webhook) if hasattr(delivery, "owner_label") else ""
        return format_html('{}<span class="webhooks-quiet">{}</span>', shown, owner)

    @admin.display(description=_("state"))
    def state_and_answer(self, delivery: Delivery) -> SafeString:
        """Return the state with the status code and the duration of the last attempt."""
        attempt: DeliveryAttempt | None = getattr(delivery, "last_attempt", None)
        parts = []
        if attempt is not None and attempt.response_status is not None:
            parts.append(str(attempt.response_status))
        if attempt is not None and attempt.duration_ms is not None:
            parts.append(f"{grouped(attempt.duration_ms)}\N{NO-BREAK SPACE}ms")
        if delivery.attempt_count > 1:
            parts.append(gettext("%(number)d attempts") % {"number": delivery.attempt_count})
        answer = " · ".join(parts)
        state = coloured(delivery.state, state_and_result(delivery))
        to_delivery = delivery_urls(self.admin_site.name)
        if instead := delivered_later(getattr(delivery, "delivered_instead", None), url=to_delivery):
            text = '<span class="webhooks-open">{} · {}</span>'
            state = format_html(text, state_and_result(delivery), instead)
        return format_html('{}<span class="webhooks-quiet">{}</span>', state, answer) if answer else state

    @admin.display(description=_("next attempt"))
    def next_try(self, delivery: Any) -> SafeString | str:
        to_delivery = delivery_urls(self.admin_site.name)
        return (
            next_try(delivery, delivery.shown_hold, now=timezone.now(), url=to_delivery)
            or self.get_empty_value_display()
        )

    def described(self, item: Delivery) -> str:
        return f"{item.event_type}: {item.webhook.url} ({item.pk})"

    @admin.display(description=_("event"))
    def event_link(self, delivery: Delivery) -> SafeString | str:
        return self._link(delivery.event)

    @admin.display(description=_("webhook"))
    def webhook_link(self, delivery: Delivery) -> SafeString:
        webhook, url = delivery.webhook, sent_to([delivery])[delivery.pk]
        shown = webhook_with_url(webhook, breakable(url), site=self.admin_site.name)
        if url == webhook.url:
            return shown
        return format_html("{} ({})", shown, format_html(gettext("now {url}"), url=breakable(webhook.url)))

    @admin.display(description=_("redelivery of"))
    def redelivery_link(self, delivery: Delivery) -> SafeString | str:
        first = delivery.redelivery_of_id
        return link_to_delivery(first, delivery_urls(self.admin_site.name)) if first else self.get_empty_value_display()

    @admin.display(description=_("replay"))
    def replay_link(self, delivery: Delivery) -> SafeString | str:
        return self._link(delivery.replay)

    def _link(self, item: Model | None) -> SafeString | str:
        return link_to(item, site=self.admin_site.name) if item else self.get_empty_value_display()

    def _selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the selected deliveries in the order of their events, which a webhook's order keeps."""
        return sorted(super()._selected(request, queryset), key=_event_order)

    def after(self, request: HttpRequest, action: str, done: list[tuple[Any, Any]]) -> HttpResponseBase | None:
        return HttpResponseRedirect(self.page_url(done[0][1])) if len(done) == 1 else None


def _event_order(delivery: Delivery) -> tuple[int, datetime]:
    return order_of_creation(delivery.event_id or delivery.pk, (delivery.event or delivery).created_at)
