"""URLs of the public catalogue: ``path("event-types/", include("webhooks_app.portal.catalogue"))``."""

from __future__ import annotations

from django.urls import path

from .event_types import CataloguePage, CatalogueTypePage

app_name = "webhooks_catalogue"

urlpatterns = [
    path("", CataloguePage.as_view(), name="event-types"),
    path("<str:name>/", CatalogueTypePage.as_view(), name="event-type"),
]
