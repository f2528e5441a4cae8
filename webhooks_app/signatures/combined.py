"""Several schemes in one request, and their signatures as one string for storage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from .base import Headers
from .native import NativeSignature


def combine(parts: Iterable[Headers]) -> Headers:
    """Join the headers of several schemes. Different values of one header are separated by a space."""
    found: dict[str, str] = {}
    for name, value in (header for part in parts for header in part):
        known = found.get(name, value)
        found[name] = value if known == value else f"{known} {value}"
    return tuple(found.items())


def pack(signatures: Mapping[str, str]) -> str:
    """Return the signatures, by scheme, as one string; for ``native`` alone, its signature."""
    if signatures.keys() == {NativeSignature.name}:
        return signatures[NativeSignature.name]
    return json.dumps(signatures, separators=(",", ":"))


def unpack(text: str) -> dict[str, str]:
    """Return the signatures, by scheme, from a result of ``pack``."""
    if not text.startswith("{"):
        return {NativeSignature.name: text} if text else {}
    found: dict[str, str] = json.loads(text)
    return found
