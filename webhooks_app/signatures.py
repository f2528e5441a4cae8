"""The signature schemes that webhooks can use, and the form in which the log stores their signatures.

The contract and the built-in schemes are those of the receiver, so that both sides run the same code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from json.encoder import encode_basestring_ascii as _quoted

from .implementations import Implementations
from .receiver.schemes import (
    EVENT_HEADER,
    NEXT_SIGNATURE_HEADER,
    PREVIOUS_SIGNATURE_HEADER,
    SCHEMES,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    BaseSignature,
    Headers,
    Message,
    NativeSignature,
    StandardEd25519Signature,
    StandardSignature,
    sign,
    signed_headers,
)

__all__ = [
    "EVENT_HEADER",
    "NEXT_SIGNATURE_HEADER",
    "PREVIOUS_SIGNATURE_HEADER",
    "SIGNATURE_HEADER",
    "TIMESTAMP_HEADER",
    "BaseSignature",
    "Headers",
    "Message",
    "NativeSignature",
    "StandardEd25519Signature",
    "StandardSignature",
    "sign",
    "signed_headers",
]

SIGNATURES: Implementations[BaseSignature] = Implementations(
    BaseSignature,  # type: ignore[type-abstract]
    {scheme.name: type(scheme) for scheme in SCHEMES},
)


def combine(parts: Iterable[Headers]) -> Headers:
    """Join the headers of several schemes. Different values of one header are separated by a space."""
    headers = tuple(chain.from_iterable(parts))
    found = dict(headers)
    if len(found) == len(headers):
        return headers
    found.clear()
    for name, value in headers:
        known = found.get(name, value)
        found[name] = value if known == value else f"{known} {value}"
    return tuple(found.items())


def pack(signatures: Mapping[str, str]) -> str:
    """Return the signatures, by scheme, as one string; for ``native`` alone, its signature."""
    if len(signatures) == 1 and NativeSignature.name in signatures:
        return signatures[NativeSignature.name]
    # Compact JSON, for a fifth of the calls that its encoder makes.
    pairs = [f"{_quoted(name)}:{_quoted(signature)}" for name, signature in signatures.items()]
    return f"{{{','.join(pairs)}}}"


def unpack(text: str) -> dict[str, str]:
    """Return the signatures, by scheme, from a result of ``pack``."""
    if not text.startswith("{"):
        return {NativeSignature.name: text} if text else {}
    found: dict[str, str] = json.loads(text)
    return found
