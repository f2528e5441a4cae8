"""Template tags of the customers' pages and, in a project with the admin, of the console.

Django's checks import the tag modules of all apps, also in a project without ``django.contrib.admin``.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.apps import apps
from django.db.models.options import Options
from django.utils.text import capfirst
from django.utils.translation import gettext

from ..models.fields import translated
from ..pages.display import (
    PARTS_OF_TYPE,
    breakable,
    clock,
    coloured,
    coloured_json,
    moment,
    state_of_key,
    until_verified,
)

register = template.Library()
register.filter(breakable)
register.filter(clock)
register.filter(coloured_json)
register.filter(moment)
register.filter(state_of_key)
register.filter(translated)
register.filter(until_verified)


@register.filter
def breakable_type(event_type: str) -> str:
    """Return the name of an event type with a break opportunity."""
    return breakable(event_type, PARTS_OF_TYPE)


@register.simple_tag
def in_colour(state: str, text: object) -> str:
    """Return a text in the colour of a delivery's state."""
    return coloured(state, text)


@register.simple_tag
def name_of_list(opts: Options[Any]) -> str:
    """Return the name of a model's list in the console."""
    return gettext("All webhooks") if opts.model_name == "webhook" else capfirst(str(opts.verbose_name_plural))


if apps.is_installed("django.contrib.admin"):
    from ..admin.overview import webhooks_overview

    register.inclusion_tag("admin/webhooks_app/overview_live.html", takes_context=True)(webhooks_overview)
