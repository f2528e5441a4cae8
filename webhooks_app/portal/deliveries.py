"""The deliveries and events of an account: lists with filters, and pages with the reasons."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

from django import forms
from django.db.models import Case, CharField, Count, Q, Value, When
from django.db.models.functions import Cast, Concat, StrIndex, Substr
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, Event, Webhook
from ..models.keyset import Page
from ..operations.rights import VIEW_DELIVERIES, VIEW_EVENTS
from ..owners import hidden_types
from ..pages.actions import DELIVERY
from ..pages.display import delivery_rows
from ..pages.explanation import policy_in_words, why_cancelled
from ..pages.listing import Asked
from ..pages.lists import DELIVERIES, EVENTS, WEBHOOKS
from ..pages.recipients import recipients_of
from ..pages.timeline import by_id, deliveries_read, timeline_of
from ..pages.transcript import attempts_of
from ..routing.report import decide
from ..transport.endpoint import MAX_URL_LENGTH
from .actions import buttons_at, buttons_of
from .base import AccountPage, ListPage
from .webhooks import card

__all__ = ["DeliveryListPage", "DeliveryPage", "EventListPage", "EventPage"]

MAX_WEBHOOKS_SUGGESTED = 50
"""Maximum number of webhooks that the field of the filter suggests. Its search finds all."""

MAX_LINKED = 10
"""Maximum number of webhooks that are linked if a search finds several."""

MAX_SHOWN = 50
MAX_REDELIVERED = 10

SEPARATOR = " · "
WITHOUT_SCHEME = Substr("url", StrIndex("url", Value("://")) + len("://"), 60)

FULL_NAME = Case(
    When(description="", then=WITHOUT_SCHEME),
    default=Concat("description", Value(SEPARATOR), WITHOUT_SCHEME, output_field=CharField()),
)
"""The description of a webhook, and the first characters of its URL. Several webhooks can have the same name."""

ID_END_LENGTH = 8
WITH_ID = re.compile(rf"(?P<name>.*){SEPARATOR}…(?P<digits>[0-9a-f]{{{ID_END_LENGTH}}})")
"""A name with the last digits of the ID, which are random."""


class WebhookSearch:
    """The webhooks of an account, also the deleted ones, by a part of their URL or description.

    If several have the same name, the end of the ID is added to it.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.rows: Any = Webhook.objects.owned_by(owner).annotate(name=FULL_NAME).order_by("-pk")

    def found(self, text: str) -> dict[str, str]:
        """Return the webhooks that a text finds: their names by ID. Without a text, return the newest ones.

        If a webhook has exactly this name, others that contain it are not found.
        """
        asked = Asked(WEBHOOKS, {"q": text.replace(SEPARATOR, " ")}, owner_ids=[self.owner.pk])
        return (text and self._names(self._named(text))) or self._names(asked.rows(self.rows))

    def name(self, pk: str) -> str:
        return self._names(self.rows.filter(pk=pk)).get(pk, pk)

    def _named(self, text: str) -> Any:
        """Return the webhooks whose name is a text, with or without the end of the ID."""
        is_named = Q(name=text)
        if parts := WITH_ID.fullmatch(text):
            is_named |= Q(name=parts["name"], digits__endswith=parts["digits"])
        return self.rows.annotate(digits=Cast("pk", CharField())).filter(is_named)

    def _names(self, rows: Any) -> dict[str, str]:
        """Return the names of the first of some webhooks by ID."""
        names = dict(rows.values_list("pk", "name")[:MAX_WEBHOOKS_SUGGESTED])
        same = self.rows.order_by().filter(name__in=set(names.values())).values("name")
        several = same.annotate(number=Count("pk")).filter(number__gt=1).values_list("name", flat=True)
        ambiguous = {each.casefold() for each in several}  # which some databases compare without case
        ends = {pk: f"{SEPARATOR}…{pk[-ID_END_LENGTH:]}" for pk, name in names.items() if name.casefold() in ambiguous}
        return {pk: name + ends.get(pk, "") for pk, name in names.items()}


class WebhookInput(forms.TextInput):
    """A text input that suggests webhooks: those that its text finds, or else the newest ones. An ID becomes a name."""

    template_name = "webhooks_app/widgets/suggesting_input.html"
    search: WebhookSearch

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        is_id = WEBHOOKS.is_id(value or "")
        context = super().get_context(name, self.search.name(value) if is_id else value, attrs)
        context["widget"]["attrs"]["list"] = list_id = f"{name}_names"
        names = self.search.found("" if is_id else value or "").values()
        return {**context, "list_id": list_id, "suggested": [(each, each) for each in names]}


class WebhookField(forms.CharField):
    """A field for the ID of a webhook. Another text is an error, which links what it finds with ``link``."""

    widget = WebhookInput

    def __init__(self, *, search: WebhookSearch, link: Callable[[str], str], **kwargs: Any) -> None:
        super().__init__(required=False, max_length=MAX_URL_LENGTH, **kwargs)
        self.search = self.widget.search = search
        self.link = link
        self.widget.attrs["placeholder"] = _("Name or part of the URL")

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text or WEBHOOKS.is_id(text):
            return text
        if not (found := self.search.found(text)):
            raise forms.ValidationError(_("No webhook has this name, or this in its URL."))
        links = [(self.link(pk), name) for pk, name in islice(found.items(), MAX_LINKED)]
        shown = format_html_join(SafeString("<br>"), '<a href="{}">{}</a>', links)
        raise forms.ValidationError(format_html("{}<br>{}", gettext("Several webhooks match. Choose one:"), shown))


class DeliveryListPage(ListPage):
    """The deliveries of the account, with filters."""

    template_name = "webhooks_app/portal/delivery_list.html"
    section = "deliveries"
    title = _("Deliveries")
    right = VIEW_DELIVERIES
    listed = DELIVERIES

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Redirect from a text that finds one webhook to the list of its deliveries, which has a lasting address."""
        text = request.GET.get("webhook_id", "").strip()
        is_text = 0 < len(text) <= MAX_URL_LENGTH and not WEBHOOKS.is_id(text)
        found = [*WebhookSearch(self.owner).found(text)] if is_text else []
        return HttpResponseRedirect(self._of(found[0])) if len(found) == 1 else super().get(request, *args, **kwargs)

    def _of(self, pk: str) -> str:
        """Return the query of the list with the deliveries of one webhook, and the other filters."""
        query = self.request.GET.copy()
        query.pop("cursor", None)
        query["webhook_id"] = pk
        return f"?{query.urlencode()}"

    def suggestions(self) -> dict[str, Any]:
        field = WebhookField(search=WebhookSearch(self.owner), link=self._of, label=_("Webhook"))
        return {**super().suggestions(), "webhook_id": field}

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
