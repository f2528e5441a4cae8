"""The contract of a signature scheme."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from ..exceptions import WebhookVerificationError

MAX_TIMESTAMP_DIGITS = 12

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Message(NamedTuple):
    """A request to be signed. A handshake has its delivery's id, every other message its event's."""

    id: str
    type: str
    timestamp: int
    """Unix seconds."""
    body: bytes = b""


class BaseSignature(abc.ABC):
    """A signature scheme. Instances hold no state.

    A key is a text. Keys are stored by scheme, encrypted, and are rotated with an overlap: all valid keys sign.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    signature_header: ClassVar[str]
    """The header of the signature; a request without it is not signed by this scheme."""
    header_names: ClassVar[tuple[str, ...]]
    """All headers of the scheme. A webhook's own headers cannot have these names."""
    keys_of: ClassVar[str] = ""
    """The scheme whose keys sign; empty for keys of its own. The secret of a webhook is the key of ``native``."""

    @abc.abstractmethod
    def sign(self, message: Message, keys: Sequence[str]) -> str:
        """Return the signature by these keys, the current one first, as one text. It is stored with the attempt."""

    @abc.abstractmethod
    def headers(self, message: Message, signature: str) -> Headers:
        """Return the headers for a signature; ``message.body`` may be empty. Signatures have no other form."""

    @abc.abstractmethod
    def verify(self, body: bytes, headers: Mapping[str, str], keys: Sequence[str]) -> int:
        """Return the signed timestamp of a request. Raises WebhookVerificationError unless one of the keys signed it.

        ``headers`` are those of ``header_names``, by these names. ``keys`` are texts of ``verification_key``.
        """

    @abc.abstractmethod
    def new_key(self) -> str:
        """Return a new random key."""

    def problem_with_key(self, key: str) -> str:
        """Return why a key cannot sign, as a sentence; "" if it can."""
        return ""

    def verification_key(self, key: str) -> str:
        """Return the text by which a receiver verifies: the key itself, or the public part of a pair."""
        return key

    def verifies_with(self, key: str) -> bool:
        """Return True for the form of this scheme's verification keys."""
        return not self.problem_with_key(key)

    @property
    def is_asymmetric(self) -> bool:
        """Whether the verification key is public."""
        return False

    @property
    def key_scheme(self) -> str:
        """The scheme under which its keys are stored."""
        return self.keys_of or self.name


def checked_timestamp(headers: Mapping[str, str], name: str) -> str:
    """Return the header's Unix time. Raises WebhookVerificationError if there is none."""
    timestamp = headers.get(name, "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MAX_TIMESTAMP_DIGITS):
        raise WebhookVerificationError(f"The header {name} is missing or not a Unix time in seconds.")
    return timestamp
