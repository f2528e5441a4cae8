"""The router of the API, with the OpenAPI document and Swagger UI, from the host's own static files."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, URLResolver, re_path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter

from .base import ApiView
from .deliveries import DeliveryViewSet
from .errors import not_found
from .replays import ReplayViewSet
from .views import EventTypeViewSet, EventViewSet, WebhookViewSet

if TYPE_CHECKING:
    from .openapi import Patterns


class PublicView(ApiView):
    """A view without authentication, because it shows no data of any account."""

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()
    schema: Any = None
    http_method_names = ("get", "head")
    patterns: Patterns = ()


class OpenApiView(PublicView):
    """Serve the OpenAPI document of the view sets in ``patterns``."""

    def get(self, request: Request) -> Response:
        from .openapi import document  # noqa: PLC0415 (drf-spectacular takes its time, and few processes serve this)

        return Response(document(self.patterns, _mounted_at(request, "/openapi.json")))


class SwaggerView(PublicView):
    """Show the OpenAPI document in Swagger UI."""

    def get(self, request: Request) -> HttpResponse:
        address = f"{_mounted_at(request, '/docs')}/openapi.json"
        return render(request._request, "webhooks_app/swagger_ui.html", {"openapi_url": address})  # noqa: SLF001 - DRF's way to the request of Django

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # The answer is HTML, although the only renderer of the API is for JSON.
        return super().perform_content_negotiation(request, force=True)


def documentation(patterns: Patterns) -> list[URLPattern]:
    """Return the URL patterns of the documentation, as far as the required packages are installed."""
    urls: list[URLPattern] = []
    if find_spec("drf_spectacular"):
        urls.append(re_path(r"^openapi\.json/?$", OpenApiView.as_view(patterns=patterns), name="openapi"))
        if apps.is_installed("drf_spectacular_sidecar"):
            urls.append(re_path(r"^docs/?$", SwaggerView.as_view(), name="docs"))
    return urls


def _mounted_at(request: Request, own: str) -> str:
    return request.path.rstrip("/").removesuffix(own)


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
