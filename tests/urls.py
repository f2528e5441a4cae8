"""URLs of the test project."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("v1/", include("webhooks_app.api.urls")),
    path("webhooks/", include("webhooks_app.portal.urls")),
    path("event-types/", include("webhooks_app.portal.catalogue")),
    path("accounts/", include("django.contrib.auth.urls")),
    path("health/", include("webhooks_app.probes.urls")),
    path("metrics", include("webhooks_app.metrics.urls")),
]
