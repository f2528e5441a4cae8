"""Pages that are about no model, as entries of the app's list of models and of the sidebar.

Django and its themes build both from the registered models. Each entry is therefore a model class in an app registry of
its own, as that of Django's migration recorder: it has no table, no migration and no permissions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps.registry import Apps
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils.translation import gettext_lazy as _

from ..models import Webhook
from .display import page_of
from .owned import ReadOnlyAdmin


class Entry(models.Model):
    class Meta:
        abstract = True
        app_label = "webhooks_app"
        apps = Apps()
        default_permissions = ()

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


class Receivers(Entry):
    class Meta(Entry.Meta):
        verbose_name = verbose_name_plural = _("receivers")


class EventTypes(Entry):
    class Meta(Entry.Meta):
        verbose_name = verbose_name_plural = _("event types")


class Operations(Entry):
    class Meta(Entry.Meta):
        verbose_name = verbose_name_plural = _("operations")


class PageAdmin(ReadOnlyAdmin):
    """Base of pages with an entry. A page is listed for the users who may open it."""

    methods: Sequence[str] = ("GET", "HEAD")

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("", self.view, "changelist")]

    def is_open(self, request: HttpRequest) -> bool:
        """Return True if the user may open the page."""
        raise NotImplementedError

    def show(self, request: HttpRequest) -> HttpResponseBase:
        raise NotImplementedError

    def view(self, request: HttpRequest) -> HttpResponseBase:
        self.require(request)
        return self.show(request) if request.method in self.methods else HttpResponseNotAllowed(self.methods)

    def require(self, request: HttpRequest) -> None:
        """Raise PermissionDenied if the user may not open the page. Links lead to the site of the page."""
        if not self.is_open(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name

    def page(self, request: HttpRequest, template: str, **context: Any) -> TemplateResponse:
        """Return a page from a template of this name. Its breadcrumbs and styles are those of the app."""
        return page_of(self, request, f"webhook/{template}", opts=Webhook._meta, **context)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.is_open(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.is_open(request)


def views_webhooks(request: HttpRequest) -> bool:
    """Return True if the user may view webhooks."""
    return any(request.user.has_perm(f"webhooks_app.{verb}_webhook") for verb in ("view", "change"))
