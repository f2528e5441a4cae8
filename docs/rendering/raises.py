"""Fields of the reference, from sentences of docstrings such as "Raises KeyError for an unknown name"."""

from __future__ import annotations

import re
from collections.abc import Sequence

SENTENCE = re.compile(r"(?:^|(?<=\.) )Raises (?P<errors>(?!as )[^.]*(?:\.\w[^.]*)*)\.(?= |$)")
"""A sentence up to its full stop. Full stops in dotted names do not end it."""
ERROR = re.compile(r"(?:,? ?\b(?:and|or) |, )?(?:[\w.]+\.)?(?P<name>\w+(?:Error|Denied|Configured))\b,? ?")


def with_fields(lines: Sequence[str]) -> list[str]:
    """Return the lines of a docstring with a field for each error instead of the sentences about errors."""
    fields: list[str] = []
    found: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        text = " ".join(paragraph.split("\n"))
        sentences = list(SENTENCE.finditer(text))
        fields += [field for sentence in sentences for field in _fields(sentence["errors"])]
        rest = SENTENCE.sub("", text).strip()
        if rest:
            found += [*(paragraph.split("\n") if not sentences else [rest]), ""]
    return [*found, *fields, ""]


def _fields(errors: str) -> list[str]:
    """Return a field for each error of a sentence, with the words that follow it."""
    starts = list(ERROR.finditer(errors))
    ends = [*(start.start() for start in starts[1:]), len(errors)]
    return [
        f":raises {start['name']}: {errors[start.end() : end].strip(' ,')}"
        for start, end in zip(starts, ends, strict=True)
    ]
