"""Pages that show a secret once. The POST that creates a secret redirects there, so that a reload creates nothing.

The session holds the encrypted secret under a random token until the page is shown. A message of Django's would remain
readable in a cookie or in the database.

Each form carries a random token too. A form that is sent twice redirects to the same page until the secret is shown:
browsers follow only the last answer.
"""

from __future__ import annotations

import time
from secrets import token_urlsafe
from typing import Any, NamedTuple

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext

from ..encryption import decrypt, encrypt
from ..error_reports import hide_values
from ..exceptions import SecretUnreadableError
from ..operations.rights import AccessDeniedError
from ..owners import Access
from .actions import ActingAdmin, explaining

SESSION_KEY = "webhooks_app.shown_once"
SUBMISSION = "submission"
"""Name of the hidden field with the token of a form."""
KEPT_SECONDS = 600
MAX_KEPT = 10


class Kept(NamedTuple):
    """A secret that was not shown yet, as stored in the session."""

    encrypted: str
    expires_at: float
    submission: str
    """The token of the form that created the secret."""
    url: str


def new_submission() -> str:
    """Return the token of a new form."""
    return token_urlsafe(16)


class ShowingSecrets(ActingAdmin):
    """An admin whose rows have a secret that is shown once."""

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_shown"
        view = self.admin_site.admin_view(self.shown_view)
        return [path("<path:object_id>/shown/<str:token>/", view, name=name), *super().get_urls()]

    def show_once(self, request: HttpRequest, item: Any, secret: str) -> HttpResponseRedirect:
        """Redirect to the page that shows a new secret of an item once."""
        token = token_urlsafe(16)
        url = self.page_url(item, "shown", token)
        kept = Kept(encrypt(secret), time.time() + KEPT_SECONDS, request.POST.get(SUBMISSION, ""), url)
        request.session[SESSION_KEY] = dict([*_kept(request).items(), (token, kept)][-MAX_KEPT:])
        return HttpResponseRedirect(url)

    def shown_by_first(self, request: HttpRequest) -> HttpResponseRedirect | None:
        """Redirect a form that was sent before to the page of its secret, if this was not shown yet."""
        submission = request.POST.get(SUBMISSION)
        urls = (kept.url for kept in _kept(request).values() if submission and kept.submission == submission)
        return next(map(HttpResponseRedirect, urls), None)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self.shown_by_first(request) or super().changeform_view(request, *args, **kwargs)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        context["submission"] = new_submission() if kwargs.get("obj") is None else ""
        return super().render_change_form(request, context, *args, **kwargs)

    @explaining
    def shown_view(self, request: HttpRequest, object_id: str, token: str) -> TemplateResponse:
        """Show a secret, or a note that it was already shown. The token is valid only in the same session."""
        hide_values(request)
        secret = _take(request, token)
        if secret is None and not self.has_view_or_change_permission(request):
            raise PermissionDenied
        item = self.get_queryset(request).filter(pk=unquote(object_id)).first()
        if item is None:
            raise Http404
        if secret is not None and not self.permits(request, item, Access.ALL):
            raise AccessDeniedError(self.reason_of_refusal(request, item))
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


def _take(request: HttpRequest, token: str) -> str | None:
    """Remove a secret from the session and return it; None if it was already shown or has expired."""
    kept = _kept(request)
    found = kept.pop(token, None)
    if found is None:
        return None
    request.session[SESSION_KEY] = kept
    try:
        return decrypt(found.encrypted)
    except SecretUnreadableError:
        return None


def _kept(request: HttpRequest) -> dict[str, Kept]:
    """Return the secrets in the session that have not expired, by token."""
    stored = request.session.get(SESSION_KEY, {})
    kept = {token: Kept(*entry) for token, entry in stored.items()}
    return {token: entry for token, entry in kept.items() if entry.expires_at > time.time()}
