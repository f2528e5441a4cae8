"""The router of the API."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, re_path
from rest_framework.routers import SimpleRouter

from .deliveries import DeliveryViewSet
from .docs import documentation
from .problems import not_found
from .replays import ReplayViewSet
from .views import EventTypeViewSet, EventViewSet, WebhookViewSet

__all__ = ["ApiRouter"]


class ApiRouter(SimpleRouter):
    """Route the view sets of the API, or a host's subclasses of them, and any others that are registered.

    The slash at the end of a URL is optional, without a redirect. Unknown URLs are answered with a problem document;
    therefore include ``urls`` after other URLs with the same prefix.
    """

    def __init__(
        self,
        *,
        webhooks: type[WebhookViewSet] = WebhookViewSet,
        events: type[EventViewSet] = EventViewSet,
        deliveries: type[DeliveryViewSet] = DeliveryViewSet,
        event_types: type[EventTypeViewSet] = EventTypeViewSet,
        replays: type[ReplayViewSet] = ReplayViewSet,
    ) -> None:
        super().__init__(trailing_slash=False)
        self.trailing_slash = "/?"
        self.register("webhooks", webhooks, basename="webhook")
        self.register("events", events, basename="event")
        self.register("deliveries", deliveries, basename="delivery")
        self.register("replays", replays, basename="replay")
        self.register("event-types", event_types, basename="event-type")

    def get_urls(self) -> list[URLPattern | URLResolver]:
        views = super().get_urls()
        return [*views, *documentation(views), re_path(r"", not_found)]
