"""Encryption of stored secrets: Fernet with ``WEBHOOKS_ENCRYPTION_KEYS``. The first key encrypts, all decrypt."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from .conf import settings
from .exceptions import SecretUnreadableError
from .reasons import ReasonText

# Importing cryptography costs 7 MB of memory, so it is imported only where a secret is read or written.
if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

DERIVED = "SECRET_KEY"
"""Placeholder in the list of keys for those derived from SECRET_KEY and its fallbacks."""


class Masked(str):
    """A secret as text. Its repr is masked, because logs and error reports contain the repr of values."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'********'"


def encrypt(text: str) -> str:
    return _cipher(encryption_keys()).encrypt(text.encode(errors="surrogatepass")).decode()


def decrypt(token: str) -> Masked:
    """Return the text of a token made by ``encrypt``. Raise SecretUnreadableError if no key decrypts it."""
    return _decrypt(token, encryption_keys())


def is_current(token: str) -> bool:
    """Return True if the token was encrypted with the current encryption key."""
    from cryptography.fernet import InvalidToken  # noqa: PLC0415

    try:
        _cipher(encryption_keys()[:1]).decrypt(token.encode())
    except InvalidToken:
        return False
    return True


def is_key(text: str) -> bool:
    """Return True if this is a Fernet key."""
    from cryptography.fernet import Fernet  # noqa: PLC0415

    try:
        Fernet(text)
    except ValueError:
        return False
    return True


def encryption_keys() -> tuple[str, ...]:
    """Return the configured keys; if there are none, those derived from SECRET_KEY and its fallbacks."""
    names = tuple(settings.ENCRYPTION_KEYS or (DERIVED,))
    if DERIVED not in names:
        return names
    return _with_derived(names, (django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=16)
def _with_derived(names: tuple[str, ...], secret_keys: tuple[str | bytes, ...]) -> tuple[str, ...]:
    derived = tuple(_derived_key(each) for each in secret_keys)
    return tuple(key for name in names for key in (derived if name == DERIVED else (name,)))


def _derived_key(secret_key: str | bytes) -> str:
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    material = secret_key if isinstance(secret_key, bytes) else secret_key.encode()
    kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"webhooks_app signing secrets")
    return base64.urlsafe_b64encode(kdf.derive(material)).decode()


@lru_cache(maxsize=8)
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415

    try:
        return MultiFernet([Fernet(key) for key in keys])
    except (TypeError, ValueError):
        raise ImproperlyConfigured(
            "WEBHOOKS_ENCRYPTION_KEYS contains an invalid Fernet key. Run `manage.py check` for details."
        ) from None


def decrypt_once(token: str) -> Masked:
    """Return the text of a token as ``decrypt`` does, without keeping it in memory."""
    return _decrypted(token, encryption_keys())


@lru_cache(maxsize=4096)
def _decrypt(token: str, keys: tuple[str, ...]) -> Masked:
    # Cached, because a worker decrypts the same few secrets thousands of times a second.
    return _decrypted(token, keys)


def _decrypted(token: str, keys: tuple[str, ...]) -> Masked:
    from cryptography.fernet import InvalidToken  # noqa: PLC0415

    try:
        return Masked(_cipher(keys).decrypt(token.encode()).decode(errors="surrogatepass"))
    except InvalidToken:
        raise SecretUnreadableError(ReasonText("secret_unreadable", derived=repr(DERIVED))) from None
