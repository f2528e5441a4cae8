"""Pages where customers manage their own webhooks: ``path("webhooks/", include("webhooks_app.portal.urls"))``.

The pages are thin layers over the operations, as the REST API is. A host restyles them by templates of the same names,
and changes them by subclasses of the views. ``portal_url`` returns a link for visitors without a login, and for frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .links import portal_url as portal_url
    from .links import revoke_portal_links as revoke_portal_links

__all__ = ["portal_url", "revoke_portal_links"]


def __getattr__(name: str) -> Any:
    # Models may not be imported before the apps are loaded, so these names are looked up at first use (PEP 562).
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import links  # noqa: PLC0415

    return getattr(links, name)
