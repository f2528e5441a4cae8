"""Untrusted text made safe for a terminal."""

from __future__ import annotations

import os
import unicodedata

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str, *, keep_newlines: bool = False) -> str:
    """Return the text with control, formatting and surrogate characters escaped, as in ``\\x1b``."""
    return "".join(
        character
        if unicodedata.category(character) not in _UNSAFE_CATEGORIES or (keep_newlines and character == "\n")
        else character.encode("unicode_escape").decode()
        for character in text
    )


def is_colour_refused() -> bool:
    """Return True if the environment disables colour (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))
