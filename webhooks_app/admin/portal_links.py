"""The action that creates a link to the pages of a customer, and shows it once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..error_reports import hide_values
from ..models import PortalLink, Webhook
from ..operations.actors import BaseActor
from ..operations.portal_links import create_link, path_of
from ..operations.rights import CREATE_LINK
from ..owners import owners
from ..pages.shown_once import SubmittedForm, show_once, shown_by_first, take
from .actions import explaining
from .shown_once import ShowingSecrets


class LinkForm(SubmittedForm):
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
        label=_("Valid for"),
        choices=[(15, _("15 minutes")), (60, _("an hour")), (1440, _("a day")), (10080, _("7 days"))],
        coerce=int,
        initial=15,
    )


class PortalLinks(ShowingSecrets):
    """To be mixed into the admin of webhooks."""

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("<path:object_id>/link/<str:token>/", self.link_view, "link"), *super().get_urls()]

    def has_link_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _has_pages() and self.may(request, CREATE_LINK, obj)

    @admin.action(description=_("Create a link to the customer's pages"), permissions=["link"])
    def link_to_pages(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        hide_values(request)
        if (already_done := shown_by_first(request)) is not None:
            return already_done
        if self.only_one(request, queryset, gettext("Select one webhook.")) is None:
            return None
        form = LinkForm(request.POST if self.is_confirmed(request) else None)
        if not form.is_valid():
            question = gettext("The link opens the pages of the account once, for an hour, without a login.")
            return self.ask(request, queryset, action="link_to_pages", question=question, form=form)
        given = {"rights": form.cleaned_data["rights"].split(","), "minutes": form.cleaned_data["minutes"]}
        done = self.carry_out(request, queryset, partial(_link, **given), history=gettext("Created the link."))
        if not done:
            return None
        ((webhook, link),) = done
        url = request.build_absolute_uri(path_of(link))
        return show_once(request, url, lambda token: self.page_url(webhook, "link", token))

    @explaining
    def link_view(self, request: HttpRequest, object_id: str, token: str) -> TemplateResponse:
        """Show a link, or a note that it was already shown. The token is valid only in the same session."""
        hide_values(request)
        webhook = self.find(request, object_id)
        if not self.has_link_permission(request, webhook):
            raise PermissionDenied
        title = gettext("Link to the pages of %(owner)s") % {"owner": owners().label(webhook.owner)}
        return self.shown_page(request, webhook, take(request, token), title=title)


def _link(webhook: Webhook, *, actor: BaseActor, rights: list[str], minutes: int) -> PortalLink:
    """Create a link that opens the page of the webhook."""
    page, age = f"webhooks/{webhook.pk}/", timedelta(minutes=minutes)
    try:
        return create_link(webhook.owner, actor=actor, rights=rights, expires=age, page=page)
    except ValueError:
        text = _("The URL of the webhook's page, which your project has replaced, has no argument with the name owner.")
        raise ValidationError(text) from None


def _has_pages() -> bool:
    try:
        reverse("webhooks_portal:accounts")
    except NoReverseMatch:
        return False
    return True
