"""The contract of a signature scheme."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from ..exceptions import WebhookVerificationError

MAX_TIMESTAMP_DIGITS = 12

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
