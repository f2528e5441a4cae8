"""The ASCII form of a URL with other characters, where there is exactly one that a person can tell from others.

Nothing is converted silently: the error of the URL suggests the form.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#@:\[\]]*)((?::[0-9]*)?)([/?].*)?", re.DOTALL)

AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d")
"""Characters that older software maps to others or removes (UTS 46, section 7): sharp s, final sigma, and joiners."""

SCRIPTS = (
    *({script} for script in ("LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "THAI")),
    {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"},
    {"CJK", "HANGUL"},
)
"""The scripts that a label may have, by the first word of the names of their characters."""

LOOKALIKES = (
    frozenset(
        "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u04cf\u043e\u0440\u0517\u051b\u0455\u051d"
        "\u0445\u0443\u044a\u044c\u04bd\u043f\u0433\u0475\u0461"
    ),
    frozenset("\u03b1\u03b9\u03ba\u03bd\u03c1\u03c5\u03c9\u03b7\u03bf\u03c4\u03b3"),
)
"""Cyrillic and Greek letters that look like Latin ones. A label of these alone can be taken for another name."""

LATIN = "abcdefghijklmnopqrstuvwxyz\u00e6\u00f8\u0153\u00f0\u00fe\u0142\u0111"
"""The letters that Latin ones may consist of, besides accents. Others, such as the dotless i, look like these."""


def ascii_form(url: str) -> str:
    """Return a URL with its host in punycode by IDNA 2008, and its path and query percent-encoded as UTF-8.

    Return "" if the form is not the only one, or if the host can be mistaken for another one: with mixed scripts,
    letters that look like others, digits of other scripts, and characters that IDNA 2003 treats differently.
    """
    match = _PARTS.fullmatch(url)
    if match is None:
        return ""
    scheme, host, port, target = match[1], match[2], match[3], match[4] or ""
    if not all(character.isascii() or character.isprintable() for character in target):
        return ""
    labels = [_ascii_label(label) for label in host.split(".")]
    return f"{scheme}{'.'.join(labels)}{port}{_encoded(target)}" if all(labels) else ""


def _encoded(target: str) -> str:
    return "".join(each if each.isascii() else quote(each) for each in target)


def _ascii_label(label: str) -> str:
    """Return a label in ASCII, or "" if there is no single form of it."""
    import idna  # noqa: PLC0415 - its tables take memory in every process, for rare names

    if label.isascii():
        return label
    if not _is_plain(label):
        return ""
    try:
        return idna.alabel(label).decode("ascii")
    except UnicodeError:
        return ""


def _is_plain(label: str) -> bool:
    """Return True if a label is of one script, and cannot be mistaken for another."""
    others = {each for each in label if not each.isascii()}
    if others & AMBIGUOUS or any(unicodedata.category(each) == "Nd" for each in others):
        return False
    letters = {each for each in label if not each.isascii() or each.isalpha()}
    scripts = {unicodedata.name(each, "").partition(" ")[0] for each in letters}
    if not any(scripts <= allowed for allowed in SCRIPTS) or any(letters <= alike for alike in LOOKALIKES):
        return False
    return scripts != {"LATIN"} or all(unicodedata.normalize("NFD", each)[0] in LATIN for each in letters)
