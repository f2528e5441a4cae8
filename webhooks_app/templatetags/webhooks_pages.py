"""Template tags of the customers' pages."""

from __future__ import annotations

from django import template

from ..pages.display import breakable, coloured, moment
from ..pages.reasons import translated

register = template.Library()
register.filter(breakable)
register.filter(moment)
register.filter(translated)


@register.simple_tag
def in_colour(state: str, text: object) -> str:
    """Return a text in the colour of a delivery's state."""
    return coloured(state, text)
