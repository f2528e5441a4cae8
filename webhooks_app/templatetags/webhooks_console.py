"""The console's template tags, in a project with the admin.

Django's checks import the tag modules of all apps, also in a project without ``django.contrib.admin``.
"""

from __future__ import annotations

from django import template
from django.apps import apps

register = template.Library()

if apps.is_installed("django.contrib.admin"):
    from ..admin.tags import register  # noqa: F401 - Django reads it
