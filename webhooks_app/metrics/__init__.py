"""Metrics for Prometheus. Needs the extra ``metrics``."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

try:
    import prometheus_client  # noqa: F401
except ModuleNotFoundError as error:
    raise ImproperlyConfigured(
        "webhooks_app.metrics needs prometheus-client. Install it: pip install 'django-webhooks-app[metrics]'."
    ) from error
