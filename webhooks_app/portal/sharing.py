"""Sharing of a page with a colleague: its address, and a link for somebody without a login."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.http import Http404, HttpResponse
from django.utils.translation import gettext_lazy as _

from ..operations.portal_links import create_link, is_page, path_of
from ..operations.rights import CREATE_LINK
from ..pages.shown_once import new_submission, show_once, shown_by_first, take
from .base import AccountPage, FormPage

__all__ = ["SharePage", "SharedLinkPage"]

SHARED_FOR = timedelta(days=1)
"""How long a colleague can open a link."""


class ShareForm(forms.Form):
    submission = forms.CharField(required=False, widget=forms.HiddenInput, initial=new_submission)


class SharePage(FormPage):
    """The address of a page, and a button that creates a link to it.

    The link shows what its creator may see, and changes nothing: the audit log would name the creator.
    """

    template_name = "webhooks_app/portal/share.html"
    title = _("Share a page")
    form_class = ShareForm

    @property
    def page(self) -> str:
        """The path of the page below the overview."""
        page: str = self.request.GET.get("page", "")
        if not is_page(self.owner, page):
            raise Http404
        return page

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        back = f"{self.url('overview')}{self.page}"
        return super().get_context_data(
            address=self.request.build_absolute_uri(back), back_url=back, may_link=self.may(CREATE_LINK), **kwargs
        )

    def get_initial(self) -> dict[str, Any]:
        return {"submission": new_submission()}

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        return shown_by_first(request) or super().post(request, *args, **kwargs)

    def carry_out(self, form: Any) -> HttpResponse:
        link = create_link(self.owner, actor=self.actor, user=self.actor.account, expires=SHARED_FOR, page=self.page)
        url = self.request.build_absolute_uri(path_of(link))
        return show_once(self.request, url, lambda token: self.url("shared-link", token))


class SharedLinkPage(AccountPage):
    """A new link, shown once."""

    template_name = "webhooks_app/portal/shared_link.html"
    title = _("Link for a colleague")
    right = CREATE_LINK
    is_shareable = False

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(link=take(self.request, self.kwargs["token"]), **kwargs)
