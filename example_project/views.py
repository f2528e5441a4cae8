"""The front page and the README."""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show the front page."""
    docs_url = ""
    with suppress(NoReverseMatch):  # The API documentation needs an extra.
        docs_url = reverse("webhooks_api:docs")
    return render(request, "example_project/index.html", {"docs_url": docs_url, "base_url": settings.BASE_URL})


@require_safe
def readme(request: HttpRequest) -> HttpResponse:
    """Show the README as plain text."""
    return HttpResponse((settings.BASE_DIR / "README.md").read_bytes(), content_type="text/plain; charset=utf-8")
