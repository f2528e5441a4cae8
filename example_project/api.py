"""Base of the service's API views, with the keys, limits and errors of the webhooks API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import MultiPartParser
from rest_framework.permissions import IsAuthenticated
from rest_framework.throttling import AnonRateThrottle, UserRateThrottle
from rest_framework.viewsets import GenericViewSet

from webhooks_app.api.base import ApiView
from webhooks_app.api.errors import BodyTooLarge
from webhooks_app.api.parsers import StrictJsonParser

MULTIPART_OVERHEAD_BYTES = 16 * 1024


class ServiceViewSet(ApiView, GenericViewSet[Any]):
    """Base of views for accounts, limited to their own rows."""

    permission_classes: Sequence[Any] = (IsAuthenticated,)
    pagination_class = None
    filter_backends = ()

    def get_queryset(self) -> QuerySet[Any]:
        queryset: Any = super().get_queryset()
        owned: QuerySet[Any] = queryset.owned_by(self.owner)
        return owned

    def find(self, pk: str) -> Any:
        """Return the caller's row with this id. Raises Http404, also for rows of other accounts."""
        return get_object_or_404(self.get_queryset(), pk=pk)


class LongJsonParser(StrictJsonParser):
    """JSON parser with a higher limit, for outlines."""

    max_body_bytes = 512 * 1024


class UploadParser(MultiPartParser):
    """Parser that refuses an upload by its Content-Length, before reading it."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        length = int((parser_context or {})["request"].META.get("CONTENT_LENGTH") or 0)
        if length > settings.MAX_UPLOAD_BYTES + MULTIPART_OVERHEAD_BYTES:
            raise BodyTooLarge(f"The file is too large. Send at most {settings.MAX_UPLOAD_BYTES:,} bytes.")
        return super().parse(stream, media_type, parser_context)


class AnythingNegotiation(BaseContentNegotiation):
    """Content negotiation for files: ignores the Accept header. Errors are still JSON."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class RegistrationThrottle(AnonRateThrottle):
    """Limits the registrations from one address, also of users who are logged in."""

    rate = "30/min"

    def get_cache_key(self, request: Any, view: Any) -> str:
        return str(self.cache_format % {"scope": self.scope, "ident": self.get_ident(request)})


class PresentationThrottle(UserRateThrottle):
    """Limits the presentations that an account makes by the form."""

    scope = "presentation"
    rate = "30/min"
