"""The contract of signature schemes, and the scheme of the specification: HMAC-SHA256 over timestamp and raw body."""

from __future__ import annotations

import abc
import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, TypeAlias

from ..exceptions import WebhookVerificationError

MAX_TIMESTAMP_DIGITS = 12

HMAC_BLOCK_BYTES = 64
INNER, OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))
"""The paddings of HMAC, as tables for ``bytes.translate``."""

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Message(NamedTuple):
    """A request to be signed. Its id is the event's or, for a handshake, the delivery's."""

    id: str
    type: str
    timestamp: int
    """Unix seconds."""
    body: bytes = b""


class BaseSignature(abc.ABC):
    """A signature scheme. Instances hold no state.

    A key is a string. Keys are stored encrypted, by scheme. A rotation has an overlap in which all valid keys sign.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    signature_header: ClassVar[str]
    """The header of the signature; a request without it is not signed by this scheme."""
    header_names: ClassVar[tuple[str, ...]]
    """All headers of the scheme. A webhook's own headers cannot have these names."""
    keys_of: ClassVar[str] = ""
    """The scheme whose keys it uses; empty for keys of its own. The secret of a webhook is the key of ``native``."""

    @abc.abstractmethod
    def sign(self, message: Message, keys: Sequence[str]) -> str:
        """Return the signatures made with these keys, the current one first, as one string for the log."""

    @abc.abstractmethod
    def headers(self, message: Message, signature: str) -> Headers:
        """Return the headers for a signature, which is sent in no other form. ``message.body`` may be empty."""

    @abc.abstractmethod
    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        """Return the signed timestamp of a request. Raises WebhookVerificationError unless one of the keys signed it.

        ``headers`` are those in ``header_names``, under these names. ``keys`` are results of ``verification_key``.
        """

    @abc.abstractmethod
    def new_key(self) -> str:
        """Return a new random key."""

    def problem_with_key(self, key: str) -> str:
        """Return the reason why a key cannot sign, as a sentence; "" if it can."""
        return ""

    def verification_key(self, key: str) -> str:
        """Return the key for verification: the key itself, or the public part of a pair."""
        return key

    def verifies_with(self, key: str) -> bool:
        """Return True if a key has the form of this scheme's verification keys."""
        return not self.problem_with_key(key)

    @property
    def is_asymmetric(self) -> bool:
        """Whether the verification key is public."""
        return False

    @property
    def key_scheme(self) -> str:
        """The scheme under which the keys are stored."""
        return self.keys_of or self.name


def checked_timestamp(headers: Mapping[str, str], name: str) -> str:
    """Return the header's Unix time. Raises WebhookVerificationError if there is none."""
    timestamp = headers.get(name, "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MAX_TIMESTAMP_DIGITS):
        raise WebhookVerificationError(f"The header {name} is missing or not a Unix time in seconds.")
    return timestamp


def hmac_sha256(key: str | bytes, signed: bytes) -> bytes:
    """Return HMAC-SHA256 (RFC 2104).

    Unlike ``hmac.digest``, it does not process the key again for every message, nor release the global interpreter
    lock, for which other threads wait.
    """
    keyed_inner, keyed_outer = _keyed(key)
    inner, outer = keyed_inner.copy(), keyed_outer.copy()
    inner.update(signed)
    outer.update(inner.digest())
    digest: bytes = outer.digest()
    return digest


@lru_cache(maxsize=4096)
def _keyed(key: str | bytes) -> tuple[Any, Any]:
    """Return the states of the inner and the outer hash after the key."""
    text = key.encode() if isinstance(key, str) else key
    block = (sha256(text).digest() if len(text) > HMAC_BLOCK_BYTES else text).ljust(HMAC_BLOCK_BYTES, b"\0")
    return sha256(block.translate(INNER)), sha256(block.translate(OUTER))


SIGNATURE_HEADER = "X-Webhook-Signature"
TIMESTAMP_HEADER = "X-Webhook-Timestamp"
EVENT_HEADER = "X-Webhook-Event"

PREVIOUS_SIGNATURE_HEADER = "X-Webhook-Signature-Previous"
"""The signature made with the previous secret, during the overlap of a rotation."""

SECRET_PREFIX = "whsec_"  # noqa: S105 - of every secret that is made
SECRET_BYTES = 32


class NativeSignature(BaseSignature):
    """The headers of the specification. The key of the HMAC is the whole secret with its prefix, as UTF-8."""

    name = "native"
    description = "X-Webhook-Signature: HMAC-SHA256, keyed with the whole secret."
    signature_header = SIGNATURE_HEADER
    header_names = (SIGNATURE_HEADER, TIMESTAMP_HEADER, EVENT_HEADER, PREVIOUS_SIGNATURE_HEADER)

    def sign(self, message: Message, keys: Sequence[str]) -> str:
        signed = f"{message.timestamp}.".encode() + message.body
        return " ".join(["sha256=" + hmac_sha256(key, signed).hex() for key in keys[:2]])

    def headers(self, message: Message, signature: str) -> Headers:
        current, _, previous = signature.partition(" ")
        headers = (
            (SIGNATURE_HEADER, current),
            (TIMESTAMP_HEADER, str(message.timestamp)),
            (EVENT_HEADER, message.type),
        )
        return (*headers, (PREVIOUS_SIGNATURE_HEADER, previous)) if previous else headers

    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        timestamp = checked_timestamp(headers, TIMESTAMP_HEADER)
        if not headers.get(SIGNATURE_HEADER):
            raise WebhookVerificationError(f"The header {SIGNATURE_HEADER} is missing.")
        received = [headers[name] for name in (SIGNATURE_HEADER, PREVIOUS_SIGNATURE_HEADER) if name in headers]
        for key in keys:
            expected = sign(key, timestamp, body).encode()
            if any(hmac.compare_digest(expected, signature.encode(errors="replace")) for signature in received):
                return int(timestamp)
        raise WebhookVerificationError("The signature does not match; check the secret, and that the body is raw.")

    def new_key(self) -> str:
        """Return ``whsec_`` and 32 random bytes in padded standard base64, which all libraries decode alike."""
        return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()

    def verifies_with(self, key: str) -> bool:
        return not key.startswith("whpk_")


def sign(secret: str, timestamp: int | str, body: bytes) -> str:
    """Return ``sha256=<hex>`` for a body sent at a Unix time in seconds."""
    return f"sha256={hmac_sha256(secret, f'{timestamp}.'.encode() + body).hex()}"


def signed_headers(
    secret: str, timestamp: int, event_type: str, body: bytes, *, previous_secret: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a delivery signed by this scheme alone, in the order of the specification."""
    scheme, message = NativeSignature(), Message("", event_type, timestamp, body)
    signature = scheme.sign(message, [key for key in (secret, previous_secret) if key])
    return (("Content-Type", "application/json"), *scheme.headers(message, signature))
