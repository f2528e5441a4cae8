"""Signature schemes: the headers that prove a request genuine."""

from .base import BaseSignature, Headers, Message
from .combined import combine, pack, unpack
from .native import (
    EVENT_HEADER,
    PREVIOUS_SIGNATURE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    NativeSignature,
    sign,
    signed_headers,
)
from .registry import BUILT_IN, make_signatures
from .standard import StandardEd25519Signature, StandardSignature

__all__ = [
    "BUILT_IN",
    "EVENT_HEADER",
    "PREVIOUS_SIGNATURE_HEADER",
    "SIGNATURE_HEADER",
    "TIMESTAMP_HEADER",
    "BaseSignature",
    "Headers",
    "Message",
    "NativeSignature",
    "StandardEd25519Signature",
    "StandardSignature",
    "combine",
    "make_signatures",
    "pack",
    "sign",
    "signed_headers",
    "unpack",
]
