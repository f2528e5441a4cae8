"""Pages about event types."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext

from ..models import Webhook
from ..routing import subscribed_to
from .owned import own_rows, visible_event_types
from .sidebar import PageAdmin, views_webhooks

MAX_SUBSCRIBERS = 50


class EventTypePages(PageAdmin):
    """The catalogue, and a page for each type."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.event_type_view)
        return [*super().get_urls(), path("<str:name>/", view, name="webhooks_app_webhook_event_type")]

    def is_open(self, request: HttpRequest) -> bool:
        return views_webhooks(request)

    def show(self, request: HttpRequest) -> TemplateResponse:
        """List the event types."""
        groups = visible_event_types(request).groups().items()
        return self.page(request, "event_types", title=gettext("Event types"), groups=groups)

    def event_type_view(self, request: HttpRequest, name: str) -> TemplateResponse:
        """Show an event type and its subscribers."""
        self.require(request)
        visible = visible_event_types(request)
        if name not in visible:
            raise Http404
        webhooks: Any = own_rows(request, Webhook.objects.existing())
        subscribers = list(webhooks.filter(subscribed_to(name)).order_by("-pk")[: MAX_SUBSCRIBERS + 1])
        event_type = visible.get(name)
        return self.page(
            request,
            "event_type",
            title=name,
            type=event_type,
            example=json.dumps(event_type.example, indent=2, ensure_ascii=False),
            schema=json.dumps(event_type.json_schema(), indent=2, ensure_ascii=False),
            subscribers=subscribers[:MAX_SUBSCRIBERS],
            has_more=len(subscribers) > MAX_SUBSCRIBERS,
        )
