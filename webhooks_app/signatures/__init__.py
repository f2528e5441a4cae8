"""Signature schemes: the headers that prove a request genuine."""

from .base import BaseSignature, Headers, Message
from .combined import combine as combine
from .combined import pack as pack
from .combined import unpack as unpack
from .native import (
    EVENT_HEADER,
    PREVIOUS_SIGNATURE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    NativeSignature,
    sign,
    signed_headers,
)
from .registry import BUILT_IN as BUILT_IN
from .registry import make_signatures as make_signatures
from .standard import StandardEd25519Signature, StandardSignature

__all__ = [
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
    "sign",
    "signed_headers",
]
