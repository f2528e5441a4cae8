"""The API as it comes: ``path("v1/", include("webhooks_app.api.urls"))``, after other addresses below ``v1/``."""

from __future__ import annotations

from .routers import ApiRouter

app_name = "webhooks_api"
urlpatterns = ApiRouter().urls
