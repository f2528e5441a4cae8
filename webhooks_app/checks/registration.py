"""Registration of a check whose hints link to the documentation of their message, and values as text for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache, wraps
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from django.core import checks
from django.utils import translation
from django.utils.formats import number_format
from django.utils.translation import gettext

from ..conf import checks_language

CHECKS_PAGE = Path("docs", "checks.md")

MAX_TEXT_LENGTH = 200

EXACT_BELOW = 10**15
"""Smallest number whose digits are no longer shown."""


def register(*tags: str, deploy: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a check with Django. Each hint ends with the place of its message in the documentation.

    The messages are in English, unless ``checks_language`` is another language.
    """

    def decorate(check: Callable[..., Iterable[checks.CheckMessage]]) -> Callable[..., list[checks.CheckMessage]]:
        @wraps(check)
        def linked(**kwargs: Any) -> list[checks.CheckMessage]:
            with translation.override(checks_language.get()):
                messages = list(check(**kwargs))
                for message in messages:
                    if page := page_about_checks():
                        anchor = str(message.id).lower().replace("webhooks_app.", "webhooks-")
                        see = gettext("See %(page)s.") % {"page": f"{page}#{anchor}"}
                        message.hint = f"{message.hint or ''} {see}".strip()
            return messages

        return checks.register(linked, *tags, deploy=deploy)

    return decorate


@cache
def page_about_checks() -> str:
    """Return the published page, or in a checkout its path. Return "" if there is neither."""
    try:
        urls: list[str] = metadata("django-webhooks-app").get_all("Project-URL") or []
    except PackageNotFoundError:  # The package is imported from a folder, without having been installed.
        urls = []
    for label, _, url in (line.partition(", ") for line in urls):
        if label == "Documentation":
            return url.replace("index.md", CHECKS_PAGE.name)
    return str(CHECKS_PAGE) if (Path(__file__).parents[2] / CHECKS_PAGE).exists() else ""


def did_you_mean(near: Sequence[str]) -> str:
    """Return a hint with the most similar name, or "" if there is none."""
    return gettext("Did you mean %(name)s?") % {"name": near[0]} if near else ""


def thousands(number: float) -> str:
    """Return a number with the separators of the language."""
    return number_format(Decimal(f"{number:.15g}"), force_grouping=True)


def range_hint(least: float, most: float) -> str:
    return gettext("Use a value from %(least)s to %(most)s.") % {"least": thousands(least), "most": thousands(most)}


def short(found: object) -> str:
    """Return a value or an error as text, shortened for a message."""
    text = repr(str(found))[1:-1]
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"


def number_as_text(number: Any) -> str:
    if abs(number) < EXACT_BELOW:
        return thousands(number)
    return str(number) if isinstance(number, float) else gettext("a very large number")
