"""The complete API: ``path("v1/", include("webhooks_app.api.urls"))``, after other URLs below ``v1/``."""

from __future__ import annotations

from .routers import ApiRouter

app_name = "webhooks_api"
urlpatterns = ApiRouter().urls
