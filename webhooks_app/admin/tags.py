"""Tags of the console's templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import template
from django.template import RequestContext
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from ..pages.display import breakable, moment
from ..pages.reasons import translated
from . import charts
from .overview import shown_overview, window_of

register = template.Library()
register.filter(breakable)
register.filter(moment)
register.filter(translated)


@register.inclusion_tag("admin/webhooks_app/overview_live.html", takes_context=True)
def webhooks_overview(context: RequestContext) -> dict[str, Any]:
    """Return the context of the overview, which is refreshed while the page is open."""
    request = context["request"]
    query = {"window": window_of(request).value}
    site = getattr(request, "current_app", None)
    url = reverse("admin:webhooks_app_webhook_overview", current_app=site, query=query)
    return {**shown_overview(request), "live_url": url}


@register.filter
def heat_cells(cells: Sequence[charts.Cell]) -> SafeString:
    """Return a row of the heat map. A template is several times slower for thousands of cells."""
    rects = [
        f'<rect class="shade-{"none" if each.shade is None else each.shade}" x="{each.x}" y="0" width="{each.width}"'
        f' height="16"><title>{escape(each.label)}</title></rect>'
        for each in cells
    ]
    return mark_safe("".join(rects))  # noqa: S308 - numbers and escaped text
