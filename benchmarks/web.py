"""URLs of the console, the customers' pages and the API."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("webhooks/", include("webhooks_app.portal.urls")),
    path("v1/", include("webhooks_app.api.urls")),
]
