"""The page for Prometheus, which needs the extra ``metrics``.

It requires the token, or a user who manages all webhooks.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

try:
    from prometheus_client.exposition import choose_encoder
except ImportError as error:
    raise ImproperlyConfigured(
        "webhooks_app.metrics needs prometheus-client. Install it: pip install 'django-webhooks-app[metrics]'."
    ) from error

from ..conf import settings
from ..operations.rights import MANAGE_ALL
from .collector import WebhooksCollector

REFUSED = (
    "Send `Authorization: Bearer` with the WEBHOOKS_METRICS_TOKEN, or log in as a user who manages all webhooks.\n"
)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics as text or as OpenMetrics, whichever the Accept header prefers."""
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
