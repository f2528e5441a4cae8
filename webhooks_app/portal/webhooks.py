"""The webhooks of an account: list, creation, page and settings."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry
from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Window
from ..models import Delivery, Replay, Webhook
from ..models.delivery import DeliveryQuerySet
from ..models.fields import compact_json
from ..models.keyset import Page
from ..models.standing import Health, Standing, health_of, healths_of
from ..models.webhook import check_url
from ..operations.registration import register_webhook, update_webhook
from ..operations.rights import REGISTER_WEBHOOK, UPDATE_WEBHOOK
from ..owners import event_types_for
from ..pages.display import delivery_rows
from ..pages.explanation import why
from ..pages.form_fields import SecretField, labels_of_signatures
from ..pages.forms import GroupedCheckboxes, WebhookOptions, as_form_error, event_type_choices
from ..pages.handshake import latest_handshake
from ..pages.health import in_short, sentences, why_paused
from ..pages.lists import WEBHOOKS
from ..pages.shown_once import new_submission, show_once, shown_by_first
from ..routing.preview import preview_filter
from .actions import buttons_of_webhook
from .base import AccountPage, FormPage, ListPage, WebhookFormPage, add_errors, redirect

__all__ = ["NewWebhookPage", "SettingsPage", "WebhookListPage", "WebhookPage"]

RECENT = 10

FAILS = (Standing.FAILING, Standing.PARTLY_FAILING, Standing.RETRYING)
"""The states of which the page shows the last failure."""


class NewWebhookForm(forms.Form):
    url = forms.CharField(
        label=_("URL"),
        max_length=2048,
        widget=forms.URLInput(attrs={"placeholder": "https://"}),
        help_text=_("The address of your receiver. A request is sent there at once, to verify it."),
    )
    event_types = forms.MultipleChoiceField(label=_("Event types"), widget=GroupedCheckboxes)
    description = forms.CharField(
        label=_("Description"), max_length=200, required=False, help_text=_("For your own use.")
    )
    secret = SecretField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=_("16 to 256 characters. Leave empty to generate one. It is shown only once."),
    )
    submission = forms.CharField(required=False, widget=forms.HiddenInput, initial=new_submission)

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


class SettingsForm(WebhookOptions):
    field_order = (
        *("url", "event_types", "description", "filter", "retry_policy", "accepted_statuses", "order"),
        *("recovery", "retry_notices", "max_in_flight", "rate_limit", "signatures", "removes_signatures"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["max_in_flight"].help_text = _("Maximum number of requests at a time. Empty for the default.")
        self.offer_types(event_types_for(self.instance.owner))


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


class NewWebhookPage(FormPage):
    """The form for a new webhook."""

    template_name = "webhooks_app/portal/new_webhook.html"
    section = "webhooks"
    title = _("New webhook")
    right = REGISTER_WEBHOOK
    form_class = NewWebhookForm
    submit = _("Create")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(cancel_url=self.url("webhooks"), **kwargs)

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "event_types": event_types_for(self.owner)}

    def get_initial(self) -> dict[str, Any]:
        return {"submission": new_submission(), "event_types": self.request.GET.getlist("event_type")}

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        return shown_by_first(request) or super().post(request, *args, **kwargs)

    def carry_out(self, form: Any) -> HttpResponse:
        webhook = register_webhook(owner=self.owner, actor=self.actor, **form.arguments)
        return show_once(self.request, webhook.secret, lambda token: self.url("webhook-secret", webhook.pk, token))


class WebhookPage(AccountPage):
    """A webhook: its state, its verification and its recent deliveries."""

    template_name = "webhooks_app/portal/webhook.html"
    section = "webhooks"
    is_live = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        webhook = self.find_webhook()
        found = health_of(webhook)
        failure = last_failure_of(webhook, found)
        attempts = failure.shown_attempts() if failure else []  # retention may have deleted them
        newest = shown_deliveries(webhook).filter(kind__in=(Delivery.Kind.EVENT, Delivery.Kind.TEST)).order_by("-pk")
        recent = delivery_rows(newest[:RECENT], url=self.delivery_url)
        day = reading.series(Window.DAY, [webhook.pk])
        return super().get_context_data(
            title=webhook.description or gettext("Webhook"),
            subject=webhook.url,
            webhook=webhook,
            **state_of(webhook, found),
            why_paused=why_paused(webhook),
            failure=failure,
            why_failed=why(attempts[-1]) if attempts else "",
            actions=buttons_of_webhook(self, webhook),
            filter=compact_json(webhook.filter),
            signatures=labels_of_signatures(webhook),
            recent=recent,
            day=day.total,
            day_p95=day.total.response_times.percentile(0.95),
            is_expected=any(row.delivery.state == Delivery.State.PENDING for row in recent),
            replays=Replay.objects.filter(webhook=webhook).order_by("-pk")[:5],
            handshake=latest_handshake(shown_deliveries(webhook), url=self.delivery_url),
            **kwargs,
        )


def state_of(webhook: Webhook, found: Health) -> dict[str, Any]:
    """Return the standing of a webhook, with its start and sentences about it."""
    return {
        "standing": found.standing,
        "state_since": webhook.shown_status_changed_at if found.standing.began_with_status else None,
        "sentences": sentences(webhook, found),
    }


def last_failure_of(webhook: Webhook, found: Health) -> Delivery | None:
    """Return the last delivery of an event with a failed request, if the receiver fails; otherwise None."""
    if found.standing not in FAILS:
        return None
    events = shown_deliveries(webhook).filter(kind=Delivery.Kind.EVENT)
    given_up = events.in_state(Delivery.State.GIVEN_UP).order_by("-pk").first()
    return given_up or events.filter(queue_entry__webhook=webhook, queue_entry__attempt__gt=0).order_by("pk").first()


def shown_deliveries(webhook: Webhook) -> DeliveryQuerySet:
    """Return the deliveries of a webhook as its owner may see them."""
    return Delivery.objects.filter(webhook=webhook).for_owner().with_related()


class SettingsPage(WebhookFormPage):
    """The form with the settings of a webhook."""

    template_name = "webhooks_app/portal/settings.html"
    title = _("Settings")
    right = UPDATE_WEBHOOK
    form_class = SettingsForm

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "instance": self.webhook}

    def form_valid(self, form: Any) -> HttpResponse:
        if "try_filter" not in self.request.POST:
            return super().form_valid(form)
        return self.render_to_response(self.get_context_data(form=form, **self._preview(form)))

    def _preview(self, form: Any) -> dict[str, Any]:
        """Return the result of the entered filter on the last events; nothing is saved."""
        try:
            found = preview_filter(form.instance, form.cleaned_data["filter"])
        except ValidationError as error:
            add_errors(form, error)
            return {}
        examples = {"match_url": found.match, "other_url": found.other}
        urls = {name: self.url("event", event.pk) for name, event in examples.items() if event is not None}
        return {"preview": found, **urls}

    def carry_out(self, form: Any) -> HttpResponse:
        saved = self.find_webhook()  # the form has changed its instance already
        update = partial(update_webhook, saved, actor=self.actor)
        if changes := form.changes:
            update(**changes)
            messages.success(self.request, gettext("Saved the settings."), fail_silently=True)
        for level, text in form.messages_about_signatures(self.find_webhook()):
            messages.add_message(self.request, level, text, fail_silently=True)
        return redirect(self.cancel_url)
