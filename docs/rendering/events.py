"""The event catalogue of the example service."""

from __future__ import annotations

from webhooks_app.catalogue import markdown_page
from webhooks_app.owners import public_event_types


def event_catalogue() -> str:
    """Return the groups of the catalogue, without the title of the page."""
    return markdown_page(public_event_types(), title="").partition("\n")[2]
