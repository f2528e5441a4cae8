"""The webhooks of an account: list, creation, page and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry
from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Window
from ..models import Delivery, Replay, Webhook
from ..models.delivery import DeliveryQuerySet
from ..models.fields import compact_json
from ..models.keyset import Page
from ..models.standing import health_of, healths_of
from ..models.status import REQUESTED
from ..models.webhook import check_url
from ..models.webhook_settings import MAX_DESCRIPTION_LENGTH, SettingsSection
from ..operations.registration import register_webhook, update_webhook
from ..operations.rights import REGISTER_WEBHOOK, UPDATE_WEBHOOK
from ..owners import event_types_for
from ..pages import charts
from ..pages.display import delivery_rows, moment
from ..pages.form_fields import NewSecretForm, labels_of_signatures
from ..pages.forms import (
    GroupedCheckboxes,
    UrlForm,
    WebhookOptions,
    as_form_error,
    event_type_choices,
)
from ..pages.handshake import latest_handshake
from ..pages.health import in_short
from ..pages.lists import WEBHOOKS
from ..pages.shown_once import SubmittedForm, show_once
from ..pages.webhook_card import Fact, Reader, Section, card_of
from ..transport.endpoint import MAX_URL_LENGTH
from .actions import buttons_at, remedies
from .base import AccountPage, FormPage, ListPage, OfWebhook, SecretFormPage, WebhookFormPage

__all__ = ["NewWebhookPage", "SettingsPage", "WebhookListPage", "WebhookPage"]

MAX_RECENT = 10


class NewWebhookForm(UrlForm, NewSecretForm, SubmittedForm):
    url = forms.CharField(
        label=_("URL"),
        max_length=MAX_URL_LENGTH,
        widget=forms.URLInput(attrs={"placeholder": "https://"}),
        help_text=_("The address of your receiver. A request is sent there at once, to verify it."),
    )
    event_types = forms.MultipleChoiceField(label=_("Event types"), widget=GroupedCheckboxes)
    description = forms.CharField(
        label=_("Description"), max_length=MAX_DESCRIPTION_LENGTH, required=False, help_text=_("For your own use.")
    )

    def __init__(self, *args: Any, event_types: EventTypeRegistry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["event_types"].choices = event_type_choices(event_types)  # type: ignore[attr-defined]

    def clean_url(self) -> str:
        """Check the URL at once, also if another field is wrong."""
        url = str(self.cleaned_data["url"])
        try:
            check_url(url)
        except ValidationError as error:
            raise as_form_error(error) from None
        return url

    @property
    def arguments(self) -> dict[str, Any]:
        """The values as arguments of ``register_webhook``."""
        given = {name: self.cleaned_data[name] for name in ("url", "event_types", "description")}
        return {**given, "secret": self.cleaned_data["secret"] or None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Settings that are shown together."""

    name: str
    label: Any
    value: str
    """Their values in short."""
    fields: list[forms.BoundField]

    @property
    def is_open(self) -> bool:
        return any(field.errors for field in self.fields)


class SettingsForm(WebhookOptions):
    def __init__(self, *args: Any, event_url: Callable[[str], str], **kwargs: Any) -> None:
        self.event_url = event_url
        super().__init__(*args, **kwargs)
        self.fields["max_in_flight"].help_text = _("Maximum number of requests at a time. Empty for the default.")
        self.fields["rate_limit"].help_text = _("At most this many, retries included. Empty for no limit.")
        self.set_types(event_types_for(self.instance.owner))
        self._values = {  # the form changes its instance
            "where": self.instance.url,
            "what": ", ".join(self.instance.event_types),
            "how": gettext("Retries, order and limits"),
            "security": gettext("Secret, signatures and headers"),
        }

    def parts(self) -> list[Part]:
        return [
            Part(
                name=section.value,
                label=section.label,
                value=self._values[section],
                fields=[self[name] for each in section.settings for name in each.inputs if name in self.fields],
            )
            for section in SettingsSection
        ]


class WebhookListPage(ListPage):
    """The webhooks of the account."""

    template_name = "webhooks_app/portal/webhook_list.html"
    section = "webhooks"
    title = _("Webhooks")
    listed = WEBHOOKS

    def rows(self) -> Any:
        return Webhook.objects.existing().owned_by(self.owner).select_related("health")

    def shown(self, page: Page) -> dict[str, Any]:
        healths = healths_of(page.rows)
        standings = [(each, healths[each.pk].standing, in_short(each, healths[each.pk])) for each in page.rows]
        return {"webhooks": standings}


class UrlPage(FormPage):
    """A form with a URL, and a button that enters its ASCII form. Nothing is saved by this button."""

    def get_form_kwargs(self) -> dict[str, Any]:
        arguments = super().get_form_kwargs()
        if url := self.request.POST.get("use_url"):
            arguments["data"] = arguments["data"].copy()
            arguments["data"]["url"] = url
        return arguments

    def form_valid(self, form: Any) -> HttpResponse:
        if "use_url" not in self.request.POST:
            return super().form_valid(form)
        return self.render_to_response(self.get_context_data(form=form))


class NewWebhookPage(UrlPage, SecretFormPage):
    """The form for a new webhook."""

    template_name = "webhooks_app/portal/new_webhook.html"
    section = "webhooks"
    title = _("New webhook")
    right = REGISTER_WEBHOOK
    form_class = NewWebhookForm
    submit = _("Create")
    back = "webhooks"

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "event_types": event_types_for(self.owner)}

    def get_initial(self) -> dict[str, Any]:
        return {"event_types": self.request.GET.getlist("event_type")}

    def carry_out(self, form: Any) -> HttpResponse:
        webhook = register_webhook(owner=self.owner, actor=self.actor, **form.arguments)
        return show_once(self.request, webhook.secret, lambda token: self.url("webhook-secret", webhook.pk, token))


def card(page: AccountPage, webhook: Webhook, tab: str) -> dict[str, Any]:
    """Return the context of a webhook's card, with links to the sections of its page."""
    judged, deliveries = health_of(webhook), shown_deliveries(webhook)
    reader = Reader(
        deliveries=deliveries,
        url=page.delivery_url,
        listed=page.deliveries_url,
        name_of=lambda entry: entry.name_for(page.actor.account),
    )
    shown = card_of(webhook, judged, reader)
    since = webhook.shown_status_changed_at if shown["shows_status_since"] else None
    facts = [Fact(_("Status since"), moment(since))] if since else []
    urls = {
        "overview": (_("Overview"), page.url("webhook", webhook.pk)),
        "deliveries": (_("Deliveries"), page.deliveries_url(webhook_id=webhook.pk)),
        "settings": (_("Settings"), page.url("webhook-settings", webhook.pk)),
        "code": (_("Code"), page.url("webhook-code", webhook.pk)),
    }
    if not page.may(UPDATE_WEBHOOK):
        del urls["settings"]
    return {
        "webhook": webhook,
        "heading": webhook.description or gettext("Webhook"),
        "sections": [Section(label, url, name == tab) for name, (label, url) in urls.items()],
        **shown,
        "remedies": list(remedies(page, webhook, shown["remedies"], shown["front"])),
        "facts": [*facts, *shown["facts"]],
    }


class WebhookTab(OfWebhook):
    """A section of a webhook's page, below its card."""

    tab: str

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = card(self, self.webhook, self.tab)
        return super().get_context_data(**{"title": context["heading"], **context, **kwargs})


class WebhookPage(WebhookTab):
    """A webhook: its results, its verification and its recent deliveries."""

    template_name = "webhooks_app/portal/webhook.html"
    tab = "overview"
    is_live = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        webhook = self.webhook
        newest = shown_deliveries(webhook).filter(kind__in=REQUESTED).order_by("-pk")
        recent = delivery_rows(newest[:MAX_RECENT], url=self.delivery_url)
        window = charts.window_of(self.request)
        series = reading.series(window, [webhook.pk])
        day = series.total if window is Window.DAY else reading.series(Window.DAY, [webhook.pk]).total
        return super().get_context_data(
            filter=compact_json(webhook.filter),
            signatures=labels_of_signatures(webhook),
            recent=recent,
            day=day,
            day_p95=day.response_times.percentile(0.95),
            **charts.shown(series, window, partial(self.deliveries_url, webhook_id=webhook.pk)),
            is_expected=any(row.delivery.state == Delivery.State.PENDING for row in recent),
            replays=Replay.objects.filter(webhook=webhook).order_by("-pk")[:5],
            handshake=latest_handshake(shown_deliveries(webhook), url=self.delivery_url),
            **kwargs,
        )


def shown_deliveries(webhook: Webhook) -> DeliveryQuerySet:
    """Return the deliveries of a webhook as its owner may see them."""
    return Delivery.objects.filter(webhook=webhook).for_owner().with_related()


class SettingsPage(WebhookTab, UrlPage, WebhookFormPage):
    """The settings of a webhook in sections, with the actions that belong to each."""

    template_name = "webhooks_app/portal/settings.html"
    tab = "settings"
    right = UPDATE_WEBHOOK
    form_class = SettingsForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(subject="", cancel_url="", **kwargs)
        webhook = self.find_webhook()  # the form has changed its instance already
        parts = context["form"].parts()
        buttons = {name: buttons_at(self, webhook, name) for name in (*(part.name for part in parts), "end")}
        return {**context, "parts": [(part, buttons[part.name]) for part in parts], "last_buttons": buttons["end"]}

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "instance": self.webhook, "event_url": partial(self.url, "event")}

    def carry_out(self, form: Any) -> HttpResponse:
        saved = self.find_webhook()  # the form has changed its instance already
        update = partial(update_webhook, saved, actor=self.actor)
        if changes := form.changes:
            update(**changes)
            messages.success(self.request, gettext("Saved the settings."), fail_silently=True)
        for level, text in form.messages_about_signatures(self.find_webhook()):
            messages.add_message(self.request, level, text, fail_silently=True)
        return HttpResponseRedirect(self.url("webhook-settings", self.webhook.pk))
