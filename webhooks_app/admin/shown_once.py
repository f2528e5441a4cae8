"""Pages of the console that show a secret once."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils.translation import gettext

from ..error_reports import hide_values
from ..operations.rights import AccessDeniedError
from ..owners import Access
from ..pages.shown_once import new_submission, show_once, shown_by_first, take
from .actions import ActingAdmin, explaining
from .display import page_of


class ShowingSecrets(ActingAdmin):
    """An admin whose rows have a secret that is shown once."""

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("<path:object_id>/shown/<str:token>/", self.shown_view, "shown"), *super().get_urls()]

    def show_once(self, request: HttpRequest, item: Any, secret: str) -> HttpResponseRedirect:
        """Redirect to the page that shows a new secret of an item once."""
        return show_once(request, secret, lambda token: self.page_url(item, "shown", token))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return shown_by_first(request) or super().changeform_view(request, *args, **kwargs)

    def page_context(self, request: HttpRequest, item: Any) -> dict[str, Any]:
        return {**super().page_context(request, item), "submission": new_submission() if item is None else ""}

    @explaining
    def shown_view(self, request: HttpRequest, object_id: str, token: str) -> TemplateResponse:
        """Show a secret, or a note that it was already shown. The token is valid only in the same session."""
        hide_values(request)
        secret = take(request, token)
        if secret is None and not self.has_view_or_change_permission(request):
            raise PermissionDenied
        item = self.get_queryset(request).filter(pk=unquote(object_id)).first()
        if item is None:
            raise Http404
        if secret is not None and not self.permits(request, item, Access.ALL):
            raise AccessDeniedError(self.reason_of_refusal(request, item))
        context = self.context_of_secret(request, item)
        return self.shown_page(request, item, secret, title=self.label_of_secret(item), **context)

    def shown_page(
        self, request: HttpRequest, item: Any, secret: str | None, *, title: str, **context: Any
    ) -> TemplateResponse:
        """Return the page with something secret about a row, or with a note that it was already shown."""
        return page_of(
            self,
            request,
            "shown_once",
            title=title if secret else gettext("Already shown"),
            secret=secret,
            item=item,
            item_url=self.page_url(item) if self.has_view_or_change_permission(request, item) else "",
            **context,
        )

    def label_of_secret(self, item: Any) -> str:
        """Return the heading of the page that shows a secret."""
        raise NotImplementedError

    def context_of_secret(self, request: HttpRequest, item: Any) -> dict[str, Any]:
        """Return additional context for the page of the secret."""
        return {}
