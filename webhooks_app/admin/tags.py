"""Tags of the console's templates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django import template
from django.template import RequestContext
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from ..pages.display import breakable
from ..pages.reasons import translated
from . import charts
from .display import deliveries_url
from .overview import MAX_COUNTED, TITLES, overview_for, window_of, windows

register = template.Library()
register.filter(breakable)
register.filter(translated)


@register.inclusion_tag("admin/webhooks_app/overview.html", takes_context=True)
def webhooks_overview(context: RequestContext) -> dict[str, Any]:
    """Return the context of the overview, or nothing if the user may not view deliveries."""
    request = context["request"]
    if not request.user.has_perm("webhooks_app.view_delivery"):
        return {}
    window = window_of(request)
    overview = overview_for(request, window)
    return {
        "overview": overview,
        "windows": windows(window),
        "title": TITLES[window],
        **charts.shown(overview.series, window, partial(deliveries_url, site=request.current_app)),
        "heat_width": charts.WIDTH,
        "max_counted": MAX_COUNTED,
    }


@register.filter
def heat_cells(cells: Sequence[charts.Cell]) -> SafeString:
    """Return a row of the heat map. A template is several times slower for thousands of cells."""
    rects = [
        f'<rect class="shade-{"none" if each.shade is None else each.shade}" x="{each.x}" y="0" width="{each.width}"'
        f' height="16"><title>{escape(each.label)}</title></rect>'
        for each in cells
    ]
    return mark_safe("".join(rects))  # noqa: S308 - numbers and escaped text
