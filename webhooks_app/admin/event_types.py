"""Pages about event types. Event types are not models, so their pages belong to the admin of webhooks."""

from __future__ import annotations

import json
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext

from ..routing import subscribed_to
from .owned import OwnedAdmin, visible_event_types

MAX_SUBSCRIBERS = 50


class EventTypePages(OwnedAdmin):
    """Mixin for the admin of webhooks."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("event-types/", view(self.event_types_view), name="webhooks_app_webhook_event_types"),
            path("event-types/<str:name>/", view(self.event_type_view), name="webhooks_app_webhook_event_type"),
            *super().get_urls(),
        ]

    def event_types_view(self, request: HttpRequest) -> TemplateResponse:
        """List the event types."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return self._page(
            request, "event_types", title=gettext("Event types"), groups=visible_event_types(request).groups().items()
        )

    def event_type_view(self, request: HttpRequest, name: str) -> TemplateResponse:
        """Show an event type and its subscribers."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        visible = visible_event_types(request)
        if name not in visible:
            raise Http404
        webhooks: Any = self.get_queryset(request)
        subscribers = list(webhooks.filter(subscribed_to(name)).order_by("-pk")[: MAX_SUBSCRIBERS + 1])
        event_type = visible.get(name)
        return self._page(
            request,
            "event_type",
            title=name,
            type=event_type,
            example=json.dumps(event_type.example, indent=2, ensure_ascii=False),
            schema=json.dumps(event_type.json_schema(), indent=2, ensure_ascii=False),
            subscribers=subscribers[:MAX_SUBSCRIBERS],
            has_more=len(subscribers) > MAX_SUBSCRIBERS,
        )

    def _page(self, request: HttpRequest, name: str, **context: Any) -> TemplateResponse:
        request.current_app = self.admin_site.name
        context |= {**self.admin_site.each_context(request), **context, "opts": self.opts, "media": self.media}
        return TemplateResponse(request, f"admin/webhooks_app/webhook/{name}.html", context)
