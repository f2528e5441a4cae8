"""Standard Webhooks 1.0 (https://www.standardwebhooks.com): ``v1`` made with a secret, ``v1a`` with a key pair."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from ..exceptions import WebhookVerificationError
from .specification import (
    SECRET_PREFIX,
    BaseSignature,
    Headers,
    Message,
    NativeSignature,
    checked_timestamp,
    hmac_sha256,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"

SECRET_SIZES = range(24, 65)
"""Length of a secret in bytes, by the standard."""

PRIVATE_PREFIX, PUBLIC_PREFIX = "whsk_", "whpk_"
ED25519_BYTES = 32

MAX_SIGNATURES = 8
"""Signatures of one version that are verified in a request. A rotation has two."""


class _StandardSignature(BaseSignature):
    """The headers of both versions. A webhook with both versions sends one header with all signatures."""

    signature_header = SIGNATURE_HEADER
    header_names = (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)
    version: str
    signature_size: int
    """Length of a signature in bytes."""

    def sign(self, message: Message, keys: Sequence[str]) -> str:
        signed = _signed_bytes(message.id, message.timestamp, message.body)
        if len(keys) == 1:
            return self._signature(keys[0], signed)
        return " ".join([self._signature(key, signed) for key in keys])

    def _signature(self, key: str, signed: bytes) -> str:
        return f"{self.version},{binascii.b2a_base64(self.digest(key, signed), newline=False).decode()}"

    def headers(self, message: Message, signature: str) -> Headers:
        return (
            (ID_HEADER, message.id),
            (TIMESTAMP_HEADER, str(message.timestamp)),
            (SIGNATURE_HEADER, signature),
        )

    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        timestamp = checked_timestamp(headers, TIMESTAMP_HEADER)
        if not headers.get(ID_HEADER):
            raise WebhookVerificationError(f"The header {ID_HEADER} is missing.")
        signed = _signed_bytes(headers[ID_HEADER], timestamp, body)
        received = self._received(headers.get(SIGNATURE_HEADER, ""))
        if received and any(self.matches(key, signed, received) for key in keys):
            return int(timestamp)
        raise WebhookVerificationError("The signature does not match; check the key, and that the body is raw.")

    def _received(self, header: str) -> list[bytes]:
        """Return the first possible signatures of this version: few, because each may take a pass over the body."""
        parts = (part.partition(",") for part in header.split(" "))
        decoded = (_decoded(text) for version, _, text in parts if version == self.version)
        possible = (found for found in decoded if found is not None and len(found) == self.signature_size)
        return list(islice(dict.fromkeys(possible), MAX_SIGNATURES))

    @abstractmethod
    def digest(self, key: str, signed: bytes) -> bytes:
        """Return the signature of these bytes, made with a key."""

    @abstractmethod
    def matches(self, key: str, signed: bytes, received: Sequence[bytes]) -> bool:
        """Return True if the key verifies one of the received signatures of these bytes."""


class StandardSignature(_StandardSignature):
    """``v1``: HMAC-SHA256, keyed with the decoded bytes of the webhook's secret."""

    name = "standard"
    description = "Standard Webhooks v1: HMAC-SHA256, keyed with the decoded bytes of the secret."
    version = "v1"
    signature_size = 32
    keys_of = NativeSignature.name

    def digest(self, key: str, signed: bytes) -> bytes:
        return hmac_sha256(_secret_bytes(key), signed)

    def matches(self, key: str, signed: bytes, received: Sequence[bytes]) -> bool:
        digest = self.digest(key, signed)
        return any(hmac.compare_digest(digest, signature) for signature in received)

    def new_key(self) -> str:
        return NativeSignature().new_key()

    def problem_with_key(self, key: str) -> str:
        secret = _decoded(key.removeprefix(SECRET_PREFIX)) if key.startswith(SECRET_PREFIX) else None
        if secret is not None and len(secret) in SECRET_SIZES:
            return ""
        return f"It needs a secret of the form {SECRET_PREFIX}… with 24 to 64 bytes in padded standard base64."


class StandardEd25519Signature(_StandardSignature):
    """``v1a``: Ed25519. The receiver holds the public key, which verifies and cannot sign."""

    name = "standard-ed25519"
    description = "Standard Webhooks v1a: Ed25519, verified with a public key."
    version = "v1a"
    signature_size = 64

    def digest(self, key: str, signed: bytes) -> bytes:
        return _private_key(key).sign(signed)

    def matches(self, key: str, signed: bytes, received: Sequence[bytes]) -> bool:
        return any(_is_signature(key, signed, signature) for signature in received)

    def new_key(self) -> str:
        return PRIVATE_PREFIX + base64.b64encode(secrets.token_bytes(ED25519_BYTES)).decode()

    def problem_with_key(self, key: str) -> str:
        if _key_bytes(key, PRIVATE_PREFIX) is not None:
            return ""
        return f"An Ed25519 key has the form {PRIVATE_PREFIX}… with {ED25519_BYTES} bytes in padded standard base64."

    def verification_key(self, key: str) -> str:
        return PUBLIC_PREFIX + base64.b64encode(_private_key(key).public_key().public_bytes_raw()).decode()

    def verifies_with(self, key: str) -> bool:
        return _key_bytes(key, PUBLIC_PREFIX) is not None

    @property
    def is_asymmetric(self) -> bool:
        return True


def _signed_bytes(message_id: str, timestamp: int | str, body: bytes) -> bytes:
    return f"{message_id}.{timestamp}.".encode(errors="replace") + body


def _is_signature(key: str, signed: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    try:
        Ed25519PublicKey.from_public_bytes(_key_bytes(key, PUBLIC_PREFIX) or b"").verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=4096)
def _secret_bytes(key: str) -> bytes:
    secret = _decoded(key.removeprefix(SECRET_PREFIX))
    if secret is None:
        raise ValueError(StandardSignature().problem_with_key(key))
    return secret


@lru_cache(maxsize=4096)
def _private_key(key: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    return Ed25519PrivateKey.from_private_bytes(_key_bytes(key, PRIVATE_PREFIX) or b"")


def _key_bytes(key: str, prefix: str) -> bytes | None:
    """Return the 32 bytes of an Ed25519 key; None for any other text."""
    found = _decoded(key.removeprefix(prefix)) if key.startswith(prefix) else None
    return found if found is not None and len(found) == ED25519_BYTES else None


def _decoded(text: str) -> bytes | None:
    """Return the bytes of a string in padded standard base64; None for any other string or another spelling."""
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if base64.b64encode(found).decode() == text else None
