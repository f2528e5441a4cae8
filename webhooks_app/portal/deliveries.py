"""The deliveries and events of an account: lists with filters, and pages with the reasons."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, Event, Webhook
from ..models.keyset import Page
from ..operations.rights import VIEW_DELIVERIES, VIEW_EVENTS
from ..owners import hidden_types
from ..pages.actions import DELIVERY
from ..pages.display import delivery_rows
from ..pages.explanation import policy_in_words, why_cancelled
from ..pages.lists import DELIVERIES, EVENTS
from ..pages.recipients import recipients_of
from ..pages.timeline import by_id, deliveries_read, timeline_of
from ..pages.transcript import attempts_of
from ..routing.report import decide
from .actions import buttons_at, buttons_of
from .base import AccountPage, ListPage
from .webhooks import card

__all__ = ["DeliveryListPage", "DeliveryPage", "EventListPage", "EventPage"]

MAX_CHOICES = 50
"""The largest number of webhooks to choose from. The list of another webhook is linked on its page."""

MAX_SHOWN = 50
MAX_REDELIVERED = 10


class DeliveryListPage(ListPage):
    """The deliveries of the account, with filters."""

    template_name = "webhooks_app/portal/delivery_list.html"
    section = "deliveries"
    title = _("Deliveries")
    right = VIEW_DELIVERIES
    listed = DELIVERIES

    def suggestions(self) -> dict[str, Any]:
        rows = Webhook.objects.owned_by(self.owner).order_by("-pk").values_list("pk", "description", "url")
        chosen = rows.filter(pk=self.request.GET.get("webhook_id"))
        # Without the scheme, so that typing in the field finds a webhook.
        names = {pk: [about, url.partition("://")[2][:60]] for pk, about, url in (*rows[:MAX_CHOICES], *chosen)}
        return {
            **super().suggestions(),
            "webhook_id": [(pk, " · ".join(filter(None, each))) for pk, each in names.items()],
        }

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Show the deliveries of one webhook as a section of its page."""
        asked = self.request.GET.get("webhook_id", "")
        own = Webhook.objects.existing().owned_by(self.owner).select_related("health", "lane")
        if (webhook := own.filter(pk=asked).first() if asked else None) is None:
            return super().get_context_data(**kwargs)
        actions = buttons_at(self, webhook, "deliveries")
        return super().get_context_data(
            **{"section": "webhooks", "actions": actions, **card(self, webhook, "deliveries"), **kwargs}
        )

    def rows(self) -> Any:
        return Delivery.objects.for_owner().owned_by(self.owner).with_related()

    def shown(self, page: Page) -> dict[str, Any]:
        return {"rows": delivery_rows(page.rows, url=self.delivery_url)}


class DeliveryPage(AccountPage):
    """A delivery with the request and the response of each attempt."""

    template_name = "webhooks_app/portal/delivery.html"
    section = "deliveries"
    is_live = True
    right = VIEW_DELIVERIES

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        delivery = self.find_delivery(self.kwargs["pk"])
        again = Delivery.objects.owned_by(self.owner).for_owner().exclude(pk=delivery.pk)
        again = again.filter(redelivery_of=delivery.redelivery_of_id or delivery.pk).with_related()
        return super().get_context_data(
            title=delivery.event_type,
            **attempts_of(delivery, url=self.delivery_url),
            policy=policy_in_words(delivery),
            why_cancelled=why_cancelled(delivery) if delivery.state == Delivery.State.CANCELLED else "",
            redeliveries=delivery_rows(again.order_by("-pk")[:MAX_REDELIVERED], url=self.delivery_url),
            delivery_actions=list(buttons_of(self, DELIVERY, delivery, lambda name: name)),
            delivery_url=self.delivery_url(delivery.pk),
            **kwargs,
        )

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Retry the delivery now, or send its event once more and show the new delivery."""
        action = DELIVERY.get(request.POST.get("action", "redeliver"))
        if action is None:
            raise Http404
        delivery = self.find_delivery(self.kwargs["pk"])
        return HttpResponseRedirect(self.delivery_url((self.perform(action, delivery) or delivery).pk))


class EventListPage(ListPage):
    """The events of the account, without notices to its receivers unless they are chosen."""

    template_name = "webhooks_app/portal/event_list.html"
    section = "events"
    title = _("Events")
    right = VIEW_EVENTS
    listed = EVENTS

    def rows(self) -> Any:
        return Event.objects.owned_by(self.owner).defer("body")

    def hides_rows(self) -> bool:
        return bool(hidden_types(self.owner))

    def shown(self, page: Page) -> dict[str, Any]:
        own = Delivery.objects.owned_by(self.owner).for_owner()
        recipients = recipients_of(own, [event.pk for event in page.rows])
        return {"events": page.rows, "rows": [(event, recipients.get(event.pk)) for event in page.rows]}


class EventPage(AccountPage):
    """An event with its timeline, and the reason why each webhook received it or not."""

    template_name = "webhooks_app/portal/event.html"
    section = "events"
    right = VIEW_EVENTS

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        event: Event = self.find(Event.objects.all(), self.kwargs["pk"])
        own = Delivery.objects.filter(event=event).owned_by(self.owner).for_owner()
        read = deliveries_read(own)
        newest = by_id(own, [each.pk for each in read[-MAX_SHOWN:]]).select_related("event").defer("event__body")
        return super().get_context_data(
            title=event.type,
            event=event,
            data=json.dumps(event.data, indent=2, ensure_ascii=False) if event.has_body else "",
            references=list(event.references.values_list("value", flat=True)),
            decisions=decide(event),
            timeline=timeline_of(event, own, read, url=self.delivery_url),
            rows=delivery_rows(newest, url=self.delivery_url),
            **kwargs,
        )
