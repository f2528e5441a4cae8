"""The buttons and links of a page."""

from __future__ import annotations

import re

CANCEL = ("cancel", "abbrechen")
"""Words in the names of buttons that cancel something, or nothing."""

_CONTROL = re.compile(
    r"<a\b[^>]*>(.*?)</a>|<button\b[^>]*>(.*?)</button>|<input type=\"submit\"[^>]* value=\"([^\"]*)\"", re.DOTALL
)


def controls_of(html: str, beginning: str) -> list[str]:
    """Return the names of the buttons and links of a page from the first occurrence of a text."""
    return ["".join(found).strip() for found in _CONTROL.findall(html[html.index(beginning) :])]


def cancelling(names: list[str]) -> list[str]:
    """Return the names with a word like "Cancel"."""
    return [name for name in names if set(re.findall(r"\w+", name.lower())) & {*CANCEL}]
