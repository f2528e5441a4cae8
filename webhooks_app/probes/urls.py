"""URLs of the health endpoints: ``path("health/", include("webhooks_app.probes.urls"))``."""

from __future__ import annotations

from django.urls import path

from . import delivery, live, ready

urlpatterns = [
    path("live", live, name="webhooks_live"),
    path("ready", ready, name="webhooks_ready"),
    path("delivery", delivery, name="webhooks_delivery"),
]
