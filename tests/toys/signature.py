"""A signature scheme with keys of its own: a keyed checksum in one header."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping, Sequence

from webhooks_app.exceptions import WebhookVerificationError
from webhooks_app.signatures import BaseSignature, Headers, Message

HEADER = "X-Toy-Checksum"


class ChecksumSignature(BaseSignature):
    name = "checksum"
    description = "X-Toy-Checksum: CRC-32 of the key, the time and the body. It protects nothing."
    signature_header = HEADER
    header_names = (HEADER, "X-Toy-Time")

    def sign(self, message: Message, keys: Sequence[str]) -> str:
        return " ".join(checksum(key, message.timestamp, message.body) for key in keys)

    def headers(self, message: Message, signature: str) -> Headers:
        return ((HEADER, signature), ("X-Toy-Time", str(message.timestamp)))

    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        timestamp = int(headers["X-Toy-Time"])
        if not any(checksum(key, timestamp, body) in headers[HEADER].split() for key in keys):
            raise WebhookVerificationError("The checksum does not match.")
        return timestamp

    def new_key(self) -> str:
        return f"toy_{secrets.token_hex(16)}"

    def problem_with_key(self, key: str) -> str:
        return "" if key.startswith("toy_") else "A key begins with toy_."


def checksum(key: str, timestamp: int, body: bytes) -> str:
    return f"{zlib.crc32(f'{key}.{timestamp}.'.encode() + body):08x}"
