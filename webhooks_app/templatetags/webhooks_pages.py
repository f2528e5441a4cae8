"""Template tags of the customers' pages."""

from __future__ import annotations

from django import template

from ..pages.display import PARTS_OF_TYPE, breakable, coloured, moment
from ..pages.reasons import translated

register = template.Library()
register.filter(breakable)
register.filter(moment)
register.filter(translated)


@register.filter
def breakable_type(event_type: str) -> str:
    """Return the name of an event type with a break opportunity."""
    return breakable(event_type, PARTS_OF_TYPE)


@register.simple_tag
def in_colour(state: str, text: object) -> str:
    """Return a text in the colour of a delivery's state."""
    return coloured(state, text)
