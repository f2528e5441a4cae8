"""The URL of the page for Prometheus: ``path("metrics", include("webhooks_app.metrics.urls"))``."""

from __future__ import annotations

from django.urls import path

from . import metrics

urlpatterns = [path("", metrics, name="webhooks_metrics")]
