"""Sharing of a page: its address for colleagues, who open it with their own login and rights."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.utils.translation import gettext_lazy as _

from ..operations.portal_links import is_page
from .base import AccountPage

__all__ = ["SharePage"]


class SharePage(AccountPage):
    """The address of a page, also for readers whose browser shows another one, as around a frame."""

    template_name = "webhooks_app/portal/share.html"
    title = _("Share a page")
    is_shareable = False

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        page = self.request.GET.get("page", "")
        if not is_page(self.owner, page):
            raise Http404
        back = f"{self.url('overview')}{page}"
        return super().get_context_data(address=self.request.build_absolute_uri(back), back_url=back, **kwargs)
