"""The page that Prometheus reads, for those who show the token or may see the webhooks of every account."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client.exposition import choose_encoder

from ..conf import settings
from .collector import WebhooksCollector

MANAGE_ALL = "webhooks_app.manage_all_webhooks"

REFUSED = "Send `Authorization: Bearer` and the WEBHOOKS_METRICS_TOKEN, or log in as staff who manage all webhooks.\n"


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer in the format that is asked for: the text format, or OpenMetrics."""
    if not _may_read(request):
        headers = {"WWW-Authenticate": "Bearer"}
        return HttpResponse(REFUSED, status=401, content_type="text/plain", headers=headers)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(WebhooksCollector()), content_type=content_type)


def _may_read(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN and scheme.lower() == "bearer":
        return constant_time_compare(token.strip(), settings.METRICS_TOKEN)
    user: Any = getattr(request, "user", None)
    return getattr(user, "is_staff", False) and user.has_perm(MANAGE_ALL)
