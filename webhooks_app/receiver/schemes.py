"""Signature schemes: the headers that prove a request genuine.

The contract, the scheme of the specification (HMAC-SHA256 over timestamp and raw body), and Standard Webhooks 1.0
(https://www.standardwebhooks.com): ``v1`` made with a secret, ``v1a`` with a key pair.
"""

from __future__ import annotations

import abc
import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Optional, Union

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
    "WebhookVerificationError",
    "sign",
    "signed_headers",
]

MAX_TIMESTAMP_DIGITS = 12

HMAC_BLOCK_BYTES = 64
INNER, OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))
"""The paddings of HMAC, as tables for ``bytes.translate``."""

Headers = tuple[tuple[str, str], ...]


class WebhookVerificationError(ValueError):
    """A received request is not a genuine, recent webhook; the message has the reason."""


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
    label: ClassVar[str] = ""
    """What pages call the scheme; if it is empty, its name."""
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

    def sign_with_next(self, message: Message, keys: Sequence[str], next_key: str) -> str:
        """Return the signatures of the keys, and of a prepared key that will replace the first.

        By default all keys sign as in an overlap, the prepared one last. Override it in a scheme whose overlap has a
        header of its own, so that receivers find the prepared key's signature elsewhere.
        """
        return self.sign(message, [*keys, next_key])

    @abc.abstractmethod
    def headers(self, message: Message, signature: str) -> Headers:
        """Return the headers for a signature, which is sent in no other form. ``message.body`` may be empty."""

    @abc.abstractmethod
    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        """Return the signed timestamp of a request. Raise WebhookVerificationError unless one of the keys signed it.

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
    """Return the header's Unix time. Raise WebhookVerificationError if there is none."""
    timestamp = headers.get(name, "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MAX_TIMESTAMP_DIGITS):
        raise WebhookVerificationError(f"The header {name} is missing or not a Unix time in seconds.")
    return timestamp


def hmac_sha256(key: Union[str, bytes], signed: bytes) -> bytes:
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
def _keyed(key: Union[str, bytes]) -> tuple[Any, Any]:
    """Return the states of the inner and the outer hash after the key."""
    text = key.encode() if isinstance(key, str) else key
    block = (sha256(text).digest() if len(text) > HMAC_BLOCK_BYTES else text).ljust(HMAC_BLOCK_BYTES, b"\0")
    return sha256(block.translate(INNER)), sha256(block.translate(OUTER))


SIGNATURE_HEADER = "X-Webhook-Signature"
TIMESTAMP_HEADER = "X-Webhook-Timestamp"
EVENT_HEADER = "X-Webhook-Event"

PREVIOUS_SIGNATURE_HEADER = "X-Webhook-Signature-Previous"
"""The signature made with the previous secret, during the overlap of a rotation."""

NEXT_SIGNATURE_HEADER = "X-Webhook-Signature-Next"
"""The signature made with the prepared secret, until its activation."""

SECRET_PREFIX = "whsec_"  # noqa: S105 - of every secret that is made
SECRET_BYTES = 32


class NativeSignature(BaseSignature):
    """The headers of the specification. The key of the HMAC is the whole secret with its prefix, as UTF-8."""

    name = "native"
    label = "Signature of this service"
    description = "X-Webhook-Signature: HMAC-SHA256, keyed with the whole secret."
    signature_header = SIGNATURE_HEADER
    header_names = (SIGNATURE_HEADER, TIMESTAMP_HEADER, EVENT_HEADER, PREVIOUS_SIGNATURE_HEADER, NEXT_SIGNATURE_HEADER)

    def sign(self, message: Message, keys: Sequence[str]) -> str:
        signed = f"{message.timestamp}.".encode() + message.body
        return " ".join(["sha256=" + hmac_sha256(key, signed).hex() for key in keys[:2]])

    def sign_with_next(self, message: Message, keys: Sequence[str], next_key: str) -> str:
        return f"{self.sign(message, keys[:1])} next:{self.sign(message, [next_key])}"

    def headers(self, message: Message, signature: str) -> Headers:
        current, _, other = signature.partition(" ")
        headers = (
            (SIGNATURE_HEADER, current),
            (TIMESTAMP_HEADER, str(message.timestamp)),
            (EVENT_HEADER, message.type),
        )
        if not other:
            return headers
        if other.startswith("next:"):
            return (*headers, (NEXT_SIGNATURE_HEADER, other.removeprefix("next:")))
        return (*headers, (PREVIOUS_SIGNATURE_HEADER, other))

    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        timestamp = checked_timestamp(headers, TIMESTAMP_HEADER)
        if not headers.get(SIGNATURE_HEADER):
            raise WebhookVerificationError(f"The header {SIGNATURE_HEADER} is missing.")
        names = (SIGNATURE_HEADER, PREVIOUS_SIGNATURE_HEADER, NEXT_SIGNATURE_HEADER)
        received = [headers[name] for name in names if name in headers]
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


def sign(secret: str, timestamp: Union[int, str], body: bytes) -> str:
    """Return ``sha256=<hex>`` for a body sent at a Unix time in seconds."""
    return f"sha256={hmac_sha256(secret, f'{timestamp}.'.encode() + body).hex()}"


def signed_headers(
    secret: str, timestamp: int, event_type: str, body: bytes, *, previous_secret: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a delivery signed by this scheme alone, in the order of the specification."""
    scheme, message = NativeSignature(), Message("", event_type, timestamp, body)
    signature = scheme.sign(message, [key for key in (secret, previous_secret) if key])
    return (("Content-Type", "application/json"), *scheme.headers(message, signature))


STANDARD_ID_HEADER = "webhook-id"
STANDARD_TIMESTAMP_HEADER = "webhook-timestamp"
STANDARD_SIGNATURE_HEADER = "webhook-signature"

SECRET_SIZES = range(24, 65)
"""Length of a secret in bytes, by the standard."""

PRIVATE_PREFIX, PUBLIC_PREFIX = "whsk_", "whpk_"
ED25519_BYTES = 32

MAX_SIGNATURES_READ = 8
"""Signatures of one version that are verified in a request. A rotation has two."""


class _StandardSignature(BaseSignature):
    """The headers of both versions. A webhook with both versions sends one header with all signatures."""

    signature_header = STANDARD_SIGNATURE_HEADER
    header_names = (STANDARD_ID_HEADER, STANDARD_TIMESTAMP_HEADER, STANDARD_SIGNATURE_HEADER)
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
            (STANDARD_ID_HEADER, message.id),
            (STANDARD_TIMESTAMP_HEADER, str(message.timestamp)),
            (STANDARD_SIGNATURE_HEADER, signature),
        )

    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        timestamp = checked_timestamp(headers, STANDARD_TIMESTAMP_HEADER)
        if not headers.get(STANDARD_ID_HEADER):
            raise WebhookVerificationError(f"The header {STANDARD_ID_HEADER} is missing.")
        signed = _signed_bytes(headers[STANDARD_ID_HEADER], timestamp, body)
        received = self._received(headers.get(STANDARD_SIGNATURE_HEADER, ""))
        if received and any(self.matches(key, signed, received) for key in keys):
            return int(timestamp)
        raise WebhookVerificationError("The signature does not match; check the key, and that the body is raw.")

    def _received(self, header: str) -> list[bytes]:
        """Return the first possible signatures of this version: few, because each may take a pass over the body."""
        parts = (part.partition(",") for part in header.split(" "))
        decoded = (_decoded(text) for version, _, text in parts if version == self.version)
        possible = (found for found in decoded if found is not None and len(found) == self.signature_size)
        return list(islice(dict.fromkeys(possible), MAX_SIGNATURES_READ))

    @abc.abstractmethod
    def digest(self, key: str, signed: bytes) -> bytes:
        """Return the signature of these bytes, made with a key."""

    @abc.abstractmethod
    def matches(self, key: str, signed: bytes, received: Sequence[bytes]) -> bool:
        """Return True if the key verifies one of the received signatures of these bytes."""


class StandardSignature(_StandardSignature):
    """``v1``: HMAC-SHA256, keyed with the decoded bytes of the webhook's secret."""

    name = "standard"
    label = "Standard Webhooks with the secret"
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
    label = "Standard Webhooks with a public key"
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


def _signed_bytes(message_id: str, timestamp: Union[int, str], body: bytes) -> bytes:
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


def _key_bytes(key: str, prefix: str) -> Optional[bytes]:
    """Return the 32 bytes of an Ed25519 key; None for any other text."""
    found = _decoded(key.removeprefix(prefix)) if key.startswith(prefix) else None
    return found if found is not None and len(found) == ED25519_BYTES else None


def _decoded(text: str) -> Optional[bytes]:
    """Return the bytes of a string in padded standard base64; None for any other string or another spelling."""
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if base64.b64encode(found).decode() == text else None


SCHEMES: tuple[BaseSignature, ...] = (NativeSignature(), StandardSignature(), StandardEd25519Signature())
"""The built-in schemes."""
