"""Metrics for Prometheus. They need the extra ``metrics``."""

from __future__ import annotations

from importlib.util import find_spec

from django.core.exceptions import ImproperlyConfigured

if not find_spec("prometheus_client"):
    raise ImproperlyConfigured(
        "webhooks_app.metrics needs prometheus-client. Install it: pip install 'django-webhooks-app[metrics]'."
    )
