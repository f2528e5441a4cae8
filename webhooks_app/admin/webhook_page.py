"""The page of a webhook: its head, its sections with their content, and its form."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from django import forms
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry, registry
from ..maintenance.rollups import reading
from ..models import Delivery, Webhook
from ..models.status import REQUESTED
from ..owners import event_types_for
from ..pages import charts
from ..pages.charts import window_of, windows
from ..pages.display import delivery_rows
from ..pages.form_fields import SecretField
from ..pages.forms import WebhookOptions
from ..pages.handshake import latest_handshake
from ..pages.webhook_card import Fact, Section, card_of
from .display import deliveries_url, delivery_urls, shows_deliveries
from .owned import as_shown
from .owner_fields import Audience, AudienceForm

RECENT = {"recent": 5, "deliveries": 25}
"""Number of deliveries in each live list."""

OVERVIEW, DELIVERIES, SETTINGS, VERIFICATION = "overview", "deliveries", "settings", "verification"
SECTIONS = {
    OVERVIEW: _("Overview"),
    DELIVERIES: _("Deliveries"),
    SETTINGS: _("Settings"),
    VERIFICATION: _("Verification"),
}

Context = dict[str, Any]


class Subscribed(NamedTuple):
    """An event type to which the webhook is subscribed."""

    name: str
    description: str
    url: str


def section_of(request: HttpRequest) -> str:
    """Return the section to show. A form with errors, and every other POST, belongs to the settings."""
    if request.method == "POST":
        return SETTINGS
    asked = request.GET.get("section", OVERVIEW)
    offered = asked in SECTIONS and (asked != DELIVERIES or shows_deliveries(request))
    return asked if offered else OVERVIEW


def sections(request: HttpRequest) -> list[Section]:
    """Return links to the sections that the user may see. They work without JavaScript."""
    current = section_of(request)
    offered = [name for name in SECTIONS if name != DELIVERIES or shows_deliveries(request)]
    return [Section(SECTIONS[name], f"?section={name}", name == current) for name in offered]


def head(request: HttpRequest, webhook: Webhook, facts: list[Fact], *, site: str) -> Context:
    """Return the card of a webhook, with facts of the console. Some need the permission to view deliveries."""
    rows = as_shown(request, webhook.deliveries.all())
    deliveries = rows.with_related() if shows_deliveries(request) else None
    card = card_of(webhook, deliveries, url=delivery_urls(site), listed=partial(deliveries_url, site=site))
    return {**card, "facts": [*card["facts"], *(fact for fact in facts if fact.value)]}


def recent(request: HttpRequest, webhook: Webhook, *, site: str, part: str = "recent") -> Context:
    """Return the newest deliveries of a webhook, if the user may view deliveries."""
    if not shows_deliveries(request):
        return {"recent": []}
    rows = as_shown(request, webhook.deliveries.order_by("-pk"))
    newest = rows.with_related().filter(kind__in=REQUESTED)[: RECENT[part]]
    listed = deliveries_url(site=site, webhook_id=webhook.pk)
    return {"recent": delivery_rows(newest, url=delivery_urls(site)), "deliveries_url": listed}


def course(request: HttpRequest, webhook: Webhook, *, site: str) -> Context:
    """Return charts of a webhook's results, if the user may view deliveries."""
    if not shows_deliveries(request):
        return {}
    window = window_of(request)
    series = reading.series(window, [webhook.pk])
    return {
        "windows": windows(window),
        **charts.shown(series, window, partial(deliveries_url, site=site, webhook_id=webhook.pk)),
    }


def handshake(request: HttpRequest, webhook: Webhook, *, site: str) -> Context:
    """Return the status of the latest verification, with its transcript if the user may view deliveries."""
    found = latest_handshake(as_shown(request, webhook.deliveries.all()), url=delivery_urls(site))
    is_done = found is None or found.state != Delivery.State.PENDING
    return {"handshake": found, "is_done": is_done, "shows_attempts": shows_deliveries(request)}


def subscribed(webhook: Webhook, *, site: str) -> list[Subscribed]:
    """Return the subscribed event types with their descriptions."""
    return [_subscribed(name, site) for name in webhook.event_types]


def _subscribed(name: str, site: str) -> Subscribed:
    if name not in registry:
        return Subscribed(name, gettext("No longer in the catalogue"), "")
    url = reverse("admin:webhooks_app_webhook_event_type", args=(name,), current_app=site)
    return Subscribed(name, registry.get(name).description, url)


class WebhookForm(AudienceForm, WebhookOptions):
    """Form of a webhook. Only a new webhook has a field for the secret."""

    visible_types: EventTypeRegistry = registry
    """Event types offered for a new webhook."""

    audience = forms.ChoiceField(
        label=_("Receives the events of"),
        choices=Audience.choices,
        initial=Audience.ONE,
        widget=forms.RadioSelect,
        help_text=_("A webhook for every account belongs to the platform and receives the events of all accounts."),
    )
    secret = SecretField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "vTextField"}),
        help_text=_("16 to 256 characters. Leave empty to generate one. It is shown only once."),
    )

    class Meta(WebhookOptions.Meta):
        fields = ("owner", *WebhookOptions.Meta.fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "url" in self.fields:
            self.fields["url"].widget.attrs["class"] = "vURLField"
        is_new = self.instance._state.adding
        if not is_new:
            self.fields.pop("secret", None)
        self.offer_audience()
        self.offer_types(self.visible_types if is_new else event_types_for(self.instance.owner))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.check_audience()
        if secret := self.cleaned_data.get("secret"):
            self.instance.secret = secret
        return cleaned
