"""The console's template tags, in a project with the admin.

Django's checks import the tag modules of all apps, also in a project without ``django.contrib.admin``.
"""

from __future__ import annotations

from django import template
from django.apps import apps

from ..pages.display import breakable, moment
from ..pages.reasons import translated

register = template.Library()
register.filter(breakable)
register.filter(moment)
register.filter(translated)

if apps.is_installed("django.contrib.admin"):
    from ..admin.charts import heat_cells
    from ..admin.overview import webhooks_overview

    register.filter(heat_cells)
    register.inclusion_tag("admin/webhooks_app/overview_live.html", takes_context=True)(webhooks_overview)
