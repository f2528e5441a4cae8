"""Signing secrets at rest: Fernet under ``WEBHOOKS_ENCRYPTION_KEYS``, the first encrypts, all decrypt."""

from __future__ import annotations

import base64
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings as django_settings

from .conf import settings
from .exceptions import SecretUnreadableError


def encrypt(text: str) -> str:
    return _cipher(_keys()).encrypt(text.encode(errors="surrogatepass")).decode()


def decrypt(token: str) -> str:
    """Return the text that ``encrypt`` was given. Raises SecretUnreadableError if no key opens it."""
    return _decrypt(token, _keys())


def _keys() -> tuple[str, ...]:
    """Return the configured keys, or keys derived from SECRET_KEY and its fallbacks."""
    if settings.ENCRYPTION_KEYS:
        return tuple(settings.ENCRYPTION_KEYS)
    return tuple(
        _derived_key(secret_key) for secret_key in (django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS)
    )


@lru_cache(maxsize=16)
def _derived_key(secret_key: str | bytes) -> str:
    material = secret_key if isinstance(secret_key, bytes) else secret_key.encode()
    kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"webhooks_app signing secrets")
    return base64.urlsafe_b64encode(kdf.derive(material)).decode()


@lru_cache(maxsize=4)
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


@lru_cache(maxsize=4096)
def _decrypt(token: str, keys: tuple[str, ...]) -> str:
    # Kept in memory: a worker opens the same few secrets thousands of times a second.
    try:
        return _cipher(keys).decrypt(token.encode()).decode(errors="surrogatepass")
    except InvalidToken:
        raise SecretUnreadableError(
            "A webhook's secret was encrypted with a key that is not configured. "
            "Put the key that was in use back into WEBHOOKS_ENCRYPTION_KEYS (or SECRET_KEY_FALLBACKS)."
        ) from None
