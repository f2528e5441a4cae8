"""Deliveries in the admin: their list, and a page with their attempts that is refreshed until the result is final."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
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
from ..pages.explanation import policy_in_words, why_cancelled
from ..pages.lists import DELIVERIES
from ..pages.transcript import attempts_of
from ..protocol.ids import order_of_creation
from ..replays.missed import delivered_instead
from .actions import LivePage
from .display import column, time_column
from .export import ExportingAdmin, account_of, shown_account_of
from .owned import ReadOnlyAdmin, knows_owners

MAX_REDELIVERIES = 10


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
class DeliveryAdmin(ReadOnlyAdmin, LivePage, ExportingAdmin):
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
    live_template = "delivery/result"

    def page_context(self, request: HttpRequest, item: Delivery) -> dict[str, Any]:
        return {**super().page_context(request, item), "subtitle": None, "crumb": self.crumb_of(item)}

    def crumb_of(self, item: Delivery) -> str:
        return item.event_type

    def live_context(self, request: HttpRequest, item: Delivery) -> dict[str, Any]:
        """Return the state with its reason, the attempts, and the later deliveries of the same event.

        Only users who may view events see the body.
        """
        shows_body = item.kind == Delivery.Kind.VERIFICATION or request.user.has_perm("webhooks_app.view_event")
        shown = attempts_of(item, shows_body=shows_body, url=self.delivery_url)
        reason = why_cancelled(item) or shown["waiting_for"]
        later = Delivery.objects.filter(redelivery_of=item.pk).order_by("-pk").values_list("pk", flat=True)
        last = shown["attempts"][-1].attempt if shown["attempts"] else None
        state = coloured(item.state, state_and_result(item, last))
        return {
            **shown,
            "standing": format_html("{}{}{}", state, ". " if reason else "", reason),
            "steering": self.buttons(request, item),
            "redeliveries": [link_to_delivery(pk, self.delivery_url) for pk in later[:MAX_REDELIVERIES]],
        }

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
    def type_and_kind(self, delivery: Delivery) -> SafeString | str:
        shown: SafeString | str = breakable(delivery.event_type, PARTS_OF_TYPE)
        if delivery.event is not None:
            shown = self.link_to(delivery.event, shown)
        note = delivery.get_kind_display() if delivery.kind == Delivery.Kind.TEST else delivery.get_purpose_display()
        return format_html("{} ({})", shown, note) if note else shown

    @admin.display(description=_("webhook"))
    def target(self, delivery: Any) -> SafeString:
        shown = self.shown_url(delivery.webhook, _sent_to(delivery))
        owner = shown_account_of(delivery.webhook) if hasattr(delivery, "owner_label") else ""
        return format_html('{}<span class="webhooks-quiet">{}</span>', shown, owner)

    @admin.display(description=_("state"))
    def state_and_answer(self, delivery: Delivery) -> SafeString:
        """Return the state with the status code and the duration of the last attempt."""
        attempt: DeliveryAttempt | None = getattr(delivery, "last_attempt", None)
        words, parts = state_and_result(delivery, attempt), []
        is_in_words = attempt is not None and attempt.result == DeliveryAttempt.Result.HTTP_STATUS
        if attempt is not None and attempt.response_status is not None and not is_in_words:
            parts.append(str(attempt.response_status))
        if attempt is not None and attempt.duration_ms is not None:
            parts.append(f"{grouped(attempt.duration_ms)}\N{NO-BREAK SPACE}ms")
        if delivery.attempt_count > 1:
            parts.append(gettext("%(number)d attempts") % {"number": delivery.attempt_count})
        answer = " · ".join(parts)
        state = coloured(delivery.state, words)
        if instead := delivered_later(getattr(delivery, "delivered_instead", None), url=self.delivery_url):
            text = '<span class="webhooks-open">{} · {}</span>'
            state = format_html(text, words, instead)
        return format_html('{}<span class="webhooks-quiet">{}</span>', state, answer) if answer else state

    @admin.display(description=_("next attempt"))
    def next_try(self, delivery: Any) -> SafeString | str:
        shown = next_try(delivery, delivery.shown_hold, now=timezone.now(), url=self.delivery_url)
        return shown or self.get_empty_value_display()

    def described(self, item: Delivery) -> str:
        return f"{item.event_type}: {item.webhook.url} ({item.pk})"

    @admin.display(description=_("event"))
    def event_link(self, delivery: Delivery) -> SafeString | str:
        return self.link_to(delivery.event)

    @admin.display(description=_("webhook"))
    def webhook_link(self, delivery: Delivery) -> SafeString:
        webhook, url = delivery.webhook, sent_to([delivery])[delivery.pk]
        shown = self.webhook_with_url(webhook, url)
        if url == webhook.url:
            return shown
        return format_html("{} ({})", shown, format_html(gettext("now {url}"), url=breakable(webhook.url)))

    @admin.display(description=_("redelivery of"))
    def redelivery_link(self, delivery: Delivery) -> SafeString | str:
        first = delivery.redelivery_of_id
        return link_to_delivery(first, self.delivery_url) if first else self.get_empty_value_display()

    @admin.display(description=_("replay"))
    def replay_link(self, delivery: Delivery) -> SafeString | str:
        return self.link_to(delivery.replay)

    def _selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the selected deliveries in the order of their events, which a webhook's order keeps."""
        return sorted(super()._selected(request, queryset), key=_event_order)

    def after(self, request: HttpRequest, action: str, done: list[tuple[Any, Any]]) -> HttpResponseBase | None:
        return HttpResponseRedirect(self.page_url(done[0][1])) if len(done) == 1 else None


def _event_order(delivery: Delivery) -> tuple[int, datetime]:
    return order_of_creation(delivery.event_id or delivery.pk, (delivery.event or delivery).created_at)
