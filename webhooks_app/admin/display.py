"""What several pages of the console share: links, columns, a permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from ..models import Delivery, Webhook
from ..pages.display import MAX_URL, NO_VALUE, DeliveryUrl, breakable, moment
from ..pages.transcript import ShownAttempt, transcript


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


def link_to(item: Model, *, site: str, text: str = "") -> SafeString:
    """Return a link to the page of a row in the named admin site, with the ID or a text."""
    name = f"admin:{item._meta.app_label}_{item._meta.model_name}_change"
    return format_html('<a href="{}">{}</a>', reverse(name, args=(item.pk,), current_app=site), text or item.pk)


def url_of(webhook: Webhook, url: str = "", *, site: str = "") -> SafeString:
    """Return the URL of a webhook for a column, or another one; with a named site, it links to the webhook."""
    shown = breakable(Truncator(url or webhook.url).chars(MAX_URL))
    if site and not webhook.is_deleted:
        shown = link_to(webhook, site=site, text=shown)
    return format_html('<span class="webhooks-url" title="{}">{}</span>', webhook.pk, shown)


def webhook_with_url(webhook: Webhook, url: SafeString, *, site: str) -> SafeString:
    """Return the ID of a webhook, linked if it exists, and a URL."""
    shown = webhook.pk if webhook.is_deleted else link_to(webhook, site=site)
    return format_html('{} <span class="webhooks-url">{}</span>', shown, url)


def delivery_urls(site: str) -> DeliveryUrl:
    """Return the function that returns the URL of a delivery in the named admin site."""
    return lambda pk: reverse("admin:webhooks_app_delivery_change", args=(pk,), current_app=site)


def event_urls(site: str) -> Callable[[str], str]:
    """Return the function that returns the URL of an event in the named admin site."""
    return lambda pk: reverse("admin:webhooks_app_event_change", args=(pk,), current_app=site)


def deliveries_url(*, site: str, **query: str) -> str:
    """Return the URL of the list of deliveries in the named admin site, filtered by the query."""
    return reverse("admin:webhooks_app_delivery_changelist", current_app=site, query=query)


def page_of(
    model_admin: admin.ModelAdmin[Any], request: HttpRequest, template: str, *, status: int = 200, **context: Any
) -> TemplateResponse:
    """Return a page of an admin from a template of this name, with the breadcrumbs and styles of its model."""
    request.current_app = model_admin.admin_site.name
    frame = {**model_admin.admin_site.each_context(request), "opts": model_admin.opts, "media": model_admin.media}
    return TemplateResponse(request, f"admin/webhooks_app/{template}.html", {**frame, **context}, status=status)


def shown_transcript(request: HttpRequest, delivery: Delivery, *, site: str) -> list[ShownAttempt]:
    """Return the attempts of a delivery for a page, with the body only for users who may view events."""
    shows_body = delivery.kind == Delivery.Kind.VERIFICATION or request.user.has_perm("webhooks_app.view_event")
    return transcript(delivery.shown_attempts(), delivery, shows_body=shows_body, url=delivery_urls(site))


def shows_deliveries(request: HttpRequest) -> bool:
    """Return True if the user may view deliveries on any page."""
    return request.user.has_perm("webhooks_app.view_delivery")
