"""Translation of English texts when they are shown. Templates extract the variable parts of a text."""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import gettext

from .english import ADDRESSES, DESCRIPTIONS, EVENT_TYPES, INPUT, REFUSALS, STATES, STORED, URLS

TEMPLATES = (*STORED, *URLS, *ADDRESSES, *REFUSALS, *DESCRIPTIONS, *EVENT_TYPES, *STATES, *INPUT)

NESTED = frozenset({"counted", "problem", "reason", "rule", "state"})
"""Variable parts that are texts themselves."""


def translated(text: str) -> str:
    """Return an English text in the current language, or unchanged if it matches no template."""
    for template in TEMPLATES:
        if found := _pattern(template).fullmatch(text):
            parts = {name: translated(part) if name in NESTED else part for name, part in found.groupdict().items()}
            return gettext(template) % parts
    return text


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"%\((\w+)\)s", template.replace("%%", "%"))
    names = (rf"(?P<{part}>.+?)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.compile("".join(names))
