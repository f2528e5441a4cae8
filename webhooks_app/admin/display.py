"""What several pages of the console share: links, columns, a permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ..pages.display import NO_VALUE, moment


def copyable(text: str, html_id: str) -> SafeString:
    """Return a text with a button to copy it."""
    button = render_to_string("webhooks_app/parts/copy.html", {"target": html_id})
    return format_html('<span id="{}" class="webhooks-url">{}</span> {}', html_id, text, button)


def column(label: Any, of: Callable[[Any], Any]) -> Any:
    """Return a column or field of an admin with what a function returns for each row."""

    @admin.display(description=label)
    def shown(self: Any, item: Any) -> Any:
        return of(item)

    return shown


def time_column(name: str, label: Any) -> Any:
    """Return a column or field with the time of this attribute, in the format of all pages. An export has it too."""
    shown = column(label, lambda item: moment(at) if (at := getattr(item, name)) else NO_VALUE)
    shown.exported = {name: name}
    return shown


def console_url(page: str, *args: str, site: str | None, **query: str) -> str:
    """Return the URL of a page of the console in the named admin site: ``delivery_change`` with an ID, for example."""
    return reverse(f"admin:webhooks_app_{page}", args=args, current_app=site, query=query)


def page_of(
    model_admin: admin.ModelAdmin[Any], request: HttpRequest, template: str, *, status: int = 200, **context: Any
) -> TemplateResponse:
    """Return a page of an admin from a template of this name, with the breadcrumbs and styles of its model."""
    request.current_app = model_admin.admin_site.name
    frame = {**model_admin.admin_site.each_context(request), "opts": model_admin.opts, "media": model_admin.media}
    return TemplateResponse(request, f"admin/webhooks_app/{template}.html", {**frame, **context}, status=status)


def shows_deliveries(request: HttpRequest) -> bool:
    """Return True if the user may view deliveries on any page."""
    return request.user.has_perm("webhooks_app.view_delivery")
