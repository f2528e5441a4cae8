"""The specification's signature: HMAC-SHA256 over the timestamp, a full stop and the raw body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence

from ..exceptions import WebhookVerificationError
from .base import BaseSignature, Headers, Message, checked_timestamp

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
        return " ".join(["sha256=" + hmac.digest(key.encode(), signed, hashlib.sha256).hex() for key in keys[:2]])

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
    digest = hmac.digest(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hex()}"


def signed_headers(
    secret: str, timestamp: int, event_type: str, body: bytes, *, previous_secret: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a delivery signed by this scheme alone, in the order of the specification."""
    scheme, message = NativeSignature(), Message("", event_type, timestamp, body)
    signature = scheme.sign(message, [key for key in (secret, previous_secret) if key])
    return (("Content-Type", "application/json"), *scheme.headers(message, signature))
