"""A host that mounts the API at another URL, changes a view set and adds its own."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import include, path
from rest_framework.decorators import action
from rest_framework.pagination import PageNumberPagination
from rest_framework.response import Response

from webhooks_app.api.base import Operation
from webhooks_app.api.routers import ApiRouter
from webhooks_app.api.serializers import WebhookSerializer
from webhooks_app.api.views import EventViewSet, WebhookViewSet


class SmallPages(PageNumberPagination):
    page_size = 1


class ShopWebhooks(WebhookViewSet):
    """Numbered pages, an additional field and an additional operation."""

    class Record(WebhookSerializer):
        def to_representation(self, instance: Any) -> Any:
            return {**super().to_representation(instance), "shop": "corner"}

    pagination_class = SmallPages
    operations: ClassVar = {
        **WebhookViewSet.operations,
        "list": Operation(scope="webhooks:read", answer=Record, many=True),
        "greet": Operation(scope="webhooks:test", answer=WebhookSerializer),
    }

    @action(detail=True, methods=["post"])
    def greet(self, request, webhook_id):
        """Greet a webhook."""
        return Response({"hello": self.find(webhook_id).id})


class ShopEvents(EventViewSet):
    """Events as they are, in a class of the host's own."""


class HalfDone(WebhookViewSet):
    @action(detail=True, methods=["post"])
    def forgotten(self, request, webhook_id):
        """Do something without a scope."""
        return Response()


urlpatterns = [
    path("hooks/api/own", lambda request: HttpResponse("own")),
    path("hooks/api/", include(ApiRouter(webhooks=ShopWebhooks, events=ShopEvents).urls)),
    path("v1/", include("webhooks_app.api.urls")),
    path("half/", include(ApiRouter(webhooks=HalfDone).urls)),
]
