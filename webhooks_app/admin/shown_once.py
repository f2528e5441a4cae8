"""Pages that show a secret once. The POST that creates a secret redirects there, so that a reload creates nothing.

The session holds the encrypted secret under a random token until the page is shown. A message of Django's would remain
readable in a cookie or in the database.
"""

from __future__ import annotations

import time
from secrets import token_urlsafe
from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext

from ..encryption import decrypt, encrypt
from ..error_reports import hide_values
from ..exceptions import SecretUnreadableError
from .actions import ActingAdmin

SESSION_KEY = "webhooks_app.shown_once"
KEPT_SECONDS = 600
MAX_KEPT = 10


class ShowingSecrets(ActingAdmin):
    """An admin whose rows have a secret that is shown once."""

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_shown"
        view = self.admin_site.admin_view(self.shown_view)
        return [path("<path:object_id>/shown/<str:token>/", view, name=name), *super().get_urls()]

    def show_once(self, request: HttpRequest, item: Any, secret: str) -> HttpResponseRedirect:
        """Redirect to the page that shows a new secret of an item once."""
        return HttpResponseRedirect(self.page_url(item, "shown", _put(request, secret)))

    def shown_view(self, request: HttpRequest, object_id: str, token: str) -> TemplateResponse:
        """Show a secret, or a note that it was already shown. The token is valid only in the same session."""
        hide_values(request)
        secret = _take(request, token)
        if secret is None and not self.has_view_or_change_permission(request):
            raise PermissionDenied
        item = self.get_queryset(request).filter(pk=unquote(object_id)).first()
        if item is None:
            raise Http404
        context = {
            **self.admin_site.each_context(request),
            "title": self.label_of_secret(item) if secret else gettext("Already shown"),
            "secret": secret,
            "item": item,
            "item_url": self.page_url(item) if self.has_view_or_change_permission(request, item) else "",
            "opts": self.opts,
            "media": self.media,
            **self.context_of_secret(request, item),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/webhooks_app/shown_once.html", context)

    def label_of_secret(self, item: Any) -> str:
        """Return the heading of the page that shows a secret."""
        raise NotImplementedError

    def context_of_secret(self, request: HttpRequest, item: Any) -> dict[str, Any]:
        """Return additional context for the page of the secret."""
        return {}


def _put(request: HttpRequest, secret: str) -> str:
    """Store a secret in the session and return its token."""
    kept = _kept(request)
    token = token_urlsafe(16)
    kept[token] = [encrypt(secret), time.time() + KEPT_SECONDS]
    request.session[SESSION_KEY] = dict(list(kept.items())[-MAX_KEPT:])
    return token


def _take(request: HttpRequest, token: str) -> str | None:
    """Remove a secret from the session and return it; None if it was already shown or has expired."""
    kept = _kept(request)
    found = kept.pop(token, None)
    if found is None:
        return None
    request.session[SESSION_KEY] = kept
    try:
        return decrypt(found[0])
    except SecretUnreadableError:
        return None


def _kept(request: HttpRequest) -> dict[str, Any]:
    kept = request.session.get(SESSION_KEY, {})
    return {token: entry for token, entry in kept.items() if entry[1] > time.time()}
