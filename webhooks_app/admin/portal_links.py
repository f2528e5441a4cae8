"""The action that creates a link to the pages of a customer, and shows it once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..error_reports import hide_values
from ..models import PortalLink, Webhook
from ..operations import rights
from ..operations.actors import BaseActor
from ..operations.portal_links import create_link, path_of
from ..owners import owners
from .actions import ActingAdmin
from .display import page_of


class LinkForm(forms.Form):
    rights = forms.ChoiceField(
        label=_("What the visitor may do"),
        choices=[
            ("read", _("see the webhooks")),
            ("read,manage", _("see and change the webhooks")),
            ("read,manage,secrets", _("see and change the webhooks, and create webhooks and API keys")),
        ],
        initial="read",
        widget=forms.RadioSelect,
        help_text=_("Only what you may do yourself for the account."),
    )
    minutes = forms.TypedChoiceField(
        label=_("How long the link can be opened"),
        choices=[(15, _("15 minutes")), (60, _("an hour")), (1440, _("a day")), (10080, _("7 days"))],
        coerce=int,
        initial=15,
    )


class PortalLinks(ActingAdmin):
    """To be mixed into the admin of webhooks."""

    def has_link_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _has_pages() and self.may(request, rights.CREATE_LINK, obj)

    @admin.action(description=_("Create a link to the customer's pages"), permissions=["link"])
    def link_to_pages(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        hide_values(request)
        if queryset.count() != 1:
            self.message_user(request, gettext("Select one webhook."), messages.ERROR)
            return None
        form = LinkForm(request.POST if self.is_confirmed(request) else None)
        if not form.is_valid():
            question = gettext("The link opens the pages of the account once, for an hour, without a login.")
            return self.ask(request, queryset, action="link_to_pages", question=question, form=form)
        given = {"rights": form.cleaned_data["rights"].split(","), "minutes": form.cleaned_data["minutes"]}
        done = self.carry_out(request, queryset, partial(_link, **given), history=gettext("Created the link."))
        return self._shown(request, *done[0]) if done else None

    def _shown(self, request: HttpRequest, webhook: Webhook, link: PortalLink) -> TemplateResponse:
        page = page_of(
            self,
            request,
            "shown_once",
            title=gettext("Link to the pages of %(owner)s") % {"owner": owners().label(webhook.owner)},
            secret=request.build_absolute_uri(path_of(link)),
            item=webhook,
            item_url=self.page_url(webhook),
        )
        page["Cache-Control"] = "no-store, private"
        return page


def _link(webhook: Webhook, *, actor: BaseActor, rights: list[str], minutes: int) -> PortalLink:
    """Create a link that opens the page of the webhook."""
    age = timedelta(minutes=minutes)
    return create_link(webhook.owner, actor=actor, rights=rights, expires=age, page=f"webhooks/{webhook.pk}/")


def _has_pages() -> bool:
    try:
        reverse("webhooks_portal:accounts")
    except NoReverseMatch:
        return False
    return True
