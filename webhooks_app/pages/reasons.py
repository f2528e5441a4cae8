"""Reasons in the language of the page."""

from __future__ import annotations

from django.utils.translation import gettext

from ..reasons import ReasonText, shown, template_for


def translated(text: str) -> str:
    """Return a reason in the current language, and any other text unchanged."""
    if not isinstance(text, ReasonText):
        return text
    params = {
        name: translated(value) if isinstance(value, str) else shown(value) for name, value in text.params.items()
    }
    return gettext(template_for(text.code, text.params)) % params
