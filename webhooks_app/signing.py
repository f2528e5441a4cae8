"""The specification's signature: HMAC-SHA256 over the timestamp, a full stop and the raw body."""

from __future__ import annotations

import hashlib
import hmac

SIGNATURE_HEADER = "X-Webhook-Signature"
TIMESTAMP_HEADER = "X-Webhook-Timestamp"
EVENT_HEADER = "X-Webhook-Event"

PREVIOUS_SIGNATURE_HEADER = "X-Webhook-Signature-Previous"
"""Carries the old secret's signature while a rotation overlaps, beside the current one."""


def sign(secret: str, timestamp: int | str, body: bytes) -> str:
    """Return ``sha256=<hex>`` for a body sent at a Unix time in seconds (interface: Signing of deliveries)."""
    digest = hmac.digest(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hex()}"


def signed_headers(
    secret: str, timestamp: int, event_type: str, body: bytes, *, previous_secret: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return the headers that every delivery carries, in the order of the specification's table.

    With a previous secret, its signature follows in a header of its own.
    """
    headers = (
        ("Content-Type", "application/json"),
        (SIGNATURE_HEADER, sign(secret, timestamp, body)),
        (TIMESTAMP_HEADER, str(timestamp)),
        (EVENT_HEADER, event_type),
    )
    if not previous_secret:
        return headers
    return (*headers, (PREVIOUS_SIGNATURE_HEADER, sign(previous_secret, timestamp, body)))
