"""The page of a webhook: its head, its sections with their content, and its form."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from django import forms
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry, registry
from ..maintenance.rollups import reading
from ..models import AuditEntry, Delivery, Webhook, WorkerProcess
from ..models.standing import Standing
from ..models.status import REQUESTED
from ..owners import event_types_for
from ..pages import charts
from ..pages.actions import WEBHOOK, Button
from ..pages.charts import window_of
from ..pages.display import delivery_rows, moment
from ..pages.form_fields import NewSecretForm
from ..pages.forms import WebhookOptions
from ..pages.handshake import latest_handshake
from ..pages.webhook_card import Fact, Reader, Section, card_of
from .actions import MAX_CRUMB
from .display import console_url, shows_deliveries
from .owned import as_shown, knows_owners, manages_all
from .owner_fields import Audience, AudienceForm
from .webhook_actions import WebhookActions
from .webhook_health import known_health

MAX_NEWEST = {"recent": 5, "deliveries": 25}
"""Number of deliveries in each live list."""

OVERVIEW, DELIVERIES, SETTINGS, VERIFICATION = "overview", "deliveries", "settings", "verification"
SECTIONS = {
    OVERVIEW: _("Overview"),
    DELIVERIES: _("Deliveries"),
    SETTINGS: _("Settings"),
    VERIFICATION: _("Verification"),
}

AT_END = [name for name, action in WEBHOOK.items() if action.place == "end" and name != "delete"]
"""The actions below everything else. Django has its own button for a deletion."""

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
    return asked if asked in visible_sections(request) else OVERVIEW


def visible_sections(request: HttpRequest) -> list[str]:
    return [name for name in SECTIONS if name != DELIVERIES or shows_deliveries(request)]


def sections(request: HttpRequest) -> list[Section]:
    """Return links to the sections that the user may see. They work without JavaScript."""
    current = section_of(request)
    return [Section(SECTIONS[name], f"?section={name}", name == current) for name in visible_sections(request)]


def _name_of(request: HttpRequest, entry: AuditEntry) -> str:
    return entry.actor_name if manages_all(request) else entry.name_for(request.user)


class WebhookSections(WebhookActions):
    """Mixin for the admin of webhooks."""

    def page_context(self, request: HttpRequest, item: Webhook | None) -> Context:
        """Return the head, the sections with the content of one, and the buttons that the head lacks."""
        if item is None:
            return super().page_context(request, item)
        section = section_of(request)
        content = self._content(request, item, section)  # may read the status again
        base, head = super().page_context(request, item), self._head(request, item)
        in_head = {button.url for button in head["remedies"]}
        at_end = self.buttons(request, item, among=AT_END)
        elsewhere = in_head | {button.url for button in at_end}
        return {
            **base,
            "subtitle": None,
            "crumb": Truncator(self.crumb_of(item)).chars(MAX_CRUMB),
            "section": section,
            "sections": sections(request),
            **content,
            **head,
            "page_actions": [button for button in base["page_actions"] if button.url not in elsewhere],
            "last_actions": [button for button in at_end if button.url not in in_head],
        }

    def crumb_of(self, item: Webhook) -> str:
        return item.url

    def _head(self, request: HttpRequest, webhook: Webhook) -> Context:
        """Return the card of a webhook, with facts of the console. Some need the permission to view deliveries."""
        rows = as_shown(request, webhook.deliveries.all())
        deliveries = rows.with_related() if shows_deliveries(request) else None
        judged = known_health(webhook)
        reader = Reader(
            deliveries=deliveries,
            url=self.delivery_url,
            listed=self.deliveries_url,
            name_of=partial(_name_of, request),
            is_staff=manages_all(request),
        )
        card = card_of(webhook, judged, reader)
        since = webhook.status_changed_at if manages_all(request) else webhook.shown_status_changed_at
        began = Fact(_("Status since"), since and card["shows_status_since"] and moment(since))
        facts = [fact for fact in (began, *card["facts"], *self._facts(request, webhook)) if fact.value]
        return {**card, "facts": facts, "remedies": [*self._remedies(request, webhook, card)]}

    def _remedies(self, request: HttpRequest, webhook: Webhook, card: Context) -> Iterator[Button]:
        """Yield the buttons of what helps."""
        shows_workers = card["standing"] is Standing.DELAYED and manages_all(request)
        if card["front"]:
            yield self._button_of_front(request, card["front"])
        if shows_workers:
            yield Button(_("See the workers"), self._workers_url(), is_main=True)
        for remedy in card["remedies"]:
            is_main, action = remedy.is_main and not shows_workers, self.table.get(remedy.action)
            if action is None and self.has_change_permission(request, webhook):
                url = f"{self.page_url(webhook)}?section={SETTINGS}#id_{remedy.field}"
                yield Button(remedy.label, url, is_main=is_main)
            elif action and action.is_for(webhook) and self.may_run(request, remedy.action, webhook):
                yield Button(remedy.label, self.page_url(webhook, "act", remedy.action), is_main=is_main)

    def _button_of_front(self, request: HttpRequest, front: Delivery) -> Button:
        of_deliveries: Any = self.admin_site.get_model_admin(Delivery)
        for button in of_deliveries.buttons(request, front, among=("retry",)):
            return Button(_("Retry the event in front"), button.url, is_main=True)
        return Button(_("See the event in front"), self.delivery_url(front.pk), is_main=True)

    def _workers_url(self) -> str:
        return console_url("operations_changelist", site=self.admin_site.name)

    def _facts(self, request: HttpRequest, webhook: Webhook) -> Iterator[Fact]:
        yield Fact(_("Account"), self.owner_name(webhook) if knows_owners(request) else "")
        yield Fact(_("Created"), moment(webhook.created_at))
        if known_health(webhook).standing is Standing.DELAYED and manages_all(request):
            running = str(WorkerProcess.objects.running().count())
            yield Fact(_("Running workers"), running, url=self._workers_url())

    def _content(self, request: HttpRequest, webhook: Webhook, section: str) -> Context:
        """Return the context of a section. The settings need only the form."""
        if section == VERIFICATION:
            return {"handshake_url": self.page_url(webhook, "live", "handshake"), **self._handshake(request, webhook)}
        if section == SETTINGS:
            return {}
        part = "recent" if section == OVERVIEW else "deliveries"
        content = {"recent_url": self.page_url(webhook, "live", part), **self._recent(request, webhook, part)}
        if section == OVERVIEW:
            content["subscribed"] = [self._subscribed(name) for name in webhook.event_types]
            content |= self._course(request, webhook)
        return content

    def _recent(self, request: HttpRequest, webhook: Webhook, part: str) -> Context:
        """Return the newest deliveries of a webhook, if the user may view deliveries."""
        if not shows_deliveries(request):
            return {"recent": [], "shows_deliveries": False}
        rows = as_shown(request, webhook.deliveries.order_by("-pk"))
        newest = rows.with_related().filter(kind__in=REQUESTED)[: MAX_NEWEST[part]]
        return {
            "shows_deliveries": True,
            "recent": delivery_rows(newest, url=self.delivery_url),
            "deliveries_url": self.deliveries_url(webhook_id=webhook.pk),
        }

    def _course(self, request: HttpRequest, webhook: Webhook) -> Context:
        """Return charts of a webhook's results, if the user may view deliveries."""
        if not shows_deliveries(request):
            return {}
        window = window_of(request)
        listed = partial(self.deliveries_url, webhook_id=webhook.pk)
        return charts.shown(reading.series(window, [webhook.pk]), window, listed)

    def _subscribed(self, name: str) -> Subscribed:
        if name not in registry:
            return Subscribed(name, gettext("No longer in the catalogue"), "")
        return Subscribed(name, registry.get(name).description, self.url("webhook_event_type", name))

    def latest_handshake(self, request: HttpRequest, webhook: Webhook) -> Context:
        """Return the status of the latest verification, with its transcript if the user may view deliveries."""
        handshake = latest_handshake(as_shown(request, webhook.deliveries.all()), url=self.delivery_url)
        is_done = handshake is None or handshake.state != Delivery.State.PENDING
        return {"handshake": handshake, "is_done": is_done, "shows_attempts": shows_deliveries(request)}

    def _handshake(self, request: HttpRequest, webhook: Webhook) -> Context:
        """Return the latest verification. After its success it offers to send the missed events."""
        context = self.latest_handshake(request, webhook)
        latest = context["handshake"]
        if latest and latest.state == Delivery.State.SUCCEEDED and webhook.status != Webhook.Status.ACTIVE:
            webhook.refresh_from_db(fields=["status"])  # verified since the webhook was read
        return {**context, **self.missed(request, webhook)}

    def live_view(self, request: HttpRequest, object_id: str, part: str) -> TemplateResponse:
        """Return the current state of a live part of the page with the head, so that both are of one moment.

        Raise Http404 for a part that the user may not view.
        """
        webhook = self.viewed(request, object_id)
        if part == "handshake":
            content = self._handshake(request, webhook)
        elif part in MAX_NEWEST and shows_deliveries(request):
            content = self._recent(request, webhook, part)
        else:
            raise Http404
        context = {**content, "webhook": webhook, "with_head": True, **self._head(request, webhook)}
        template = "handshake" if part == "handshake" else "recent"
        return TemplateResponse(request, f"admin/webhooks_app/webhook/{template}.html", context)


class WebhookForm(AudienceForm, NewSecretForm, WebhookOptions):
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

    class Meta(WebhookOptions.Meta):
        fields = ("owner", *WebhookOptions.Meta.fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "url" in self.fields:
            self.fields["url"].widget.attrs["class"] = "vURLField"
        is_new = self.instance._state.adding
        if not is_new:
            self.fields.pop("secret", None)
        self.settle_audience()
        self.set_types(self.visible_types if is_new else event_types_for(self.instance.owner))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.check_audience()
        if secret := self.cleaned_data.get("secret"):
            self.instance.secret = secret
        return cleaned
