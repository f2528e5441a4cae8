"""The signatures of a webhook's requests."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from django.utils import timezone

from ..conf import known_signatures, settings
from ..encryption import decrypt, encryption_keys
from ..exceptions import SchemeUnavailableError, SecretUnreadableError, WebhooksError
from ..once import Once
from ..reasons import ReasonText
from ..signatures import BaseSignature, Headers, Message, combine, pack

logger = logging.getLogger("webhooks_app.delivery")


NO_SCHEMES = ReasonText("schemes_damaged")


_reported = Once()


class LaneKey(NamedTuple):
    """A stored key of a webhook."""

    scheme: str
    token: str
    """The encrypted key."""
    valid_until: datetime | None
    signs_from: datetime | None = None
    """Activation of a prepared key."""


class SigningStep(NamedTuple):
    scheme: BaseSignature
    keys: tuple[tuple[str, datetime | None], ...]
    """The keys with the end of their validity, the newest first."""
    only: tuple[str, ...]
    """The current key, unless another one signs too."""
    signs_from: datetime | None
    """Activation of the newest key. It is compared at each signature, so the switch needs no new claim."""

    def sign(self, message: Message, now: datetime) -> str:
        if self.only:
            return self.scheme.sign(message, self.only)
        valid = [key for key, until in self.keys if until is None or until > now]
        if self.signs_from is not None and self.signs_from > now and len(valid) > 1:
            return self.scheme.sign_with_next(message, valid[1:], valid[0])
        return self.scheme.sign(message, valid)


class Signer:
    """Sign requests with the schemes and keys that a webhook had at the time of the claim."""

    __slots__ = ("_only", "_steps")

    def __init__(self, webhook_id: str, names: Sequence[str], keys: Sequence[LaneKey]) -> None:
        """Decrypt the keys.

        Raise SchemeUnavailableError, or SecretUnreadableError for a current key.
        """
        self._steps = [_step(webhook_id, name, keys) for name in names]
        self._only = self._steps[0] if len(self._steps) == 1 else None

    def sign(self, message: Message, now: datetime) -> tuple[Headers, str]:
        """Return the headers of all schemes, and the signatures in their stored form."""
        if self._only is not None:
            scheme = self._only.scheme
            signature = self._only.sign(message, now)
            return scheme.headers(message, signature), pack({scheme.name: signature})
        signatures, headers = {}, []
        for step in self._steps:
            scheme = step.scheme
            signature = signatures[scheme.name] = step.sign(message, now)
            headers.append(scheme.headers(message, signature))
        return combine(headers), pack(signatures)


def signer_of(webhook_id: str, names: Sequence[str], keys: Sequence[LaneKey]) -> Signer:
    """Return the signer, which is made once for these schemes and keys. Raise the errors of a new one."""
    if not names or not isinstance(names, (list, tuple)):  # nothing is sent without a signature
        raise WebhooksError(NO_SCHEMES)
    return _signer(webhook_id, tuple(names), tuple(keys), tuple(settings.SIGNATURES), encryption_keys())


@lru_cache(maxsize=4096)
def _signer(
    webhook_id: str, names: Sequence[str], keys: Sequence[LaneKey], _schemes: Sequence[str], _keys: Sequence[str]
) -> Signer:
    """Return a signer for the schemes and the encryption keys that are configured now."""
    return Signer(webhook_id, names, keys)


def _step(webhook_id: str, name: str, stored: Sequence[LaneKey]) -> SigningStep:
    scheme = known_signatures().get(name)
    if scheme is None:
        raise SchemeUnavailableError(name)
    keys = [key for key in stored if key.scheme == scheme.key_scheme]
    newest = next((key for key in keys if key.valid_until is None), None)
    is_prepared = newest is not None and newest.signs_from is not None and newest.signs_from > timezone.now()
    # Until the activation, the key that is to be replaced is as necessary as a current one.
    necessary = [decrypt(key.token) for key in keys if key.valid_until is None or is_prepared]
    if not necessary:
        raise SecretUnreadableError(f"The webhook has no key for the signature scheme {name}. Rotate it.")
    for key in necessary:
        if problem := scheme.problem_with_key(key):
            raise SecretUnreadableError(f"The webhook's secret cannot sign by {name}: {problem} Rotate the secret.")
    opened = [(necessary[0], None), *_previous(webhook_id, scheme, keys)]
    only = () if len(opened) > 1 else (necessary[0],)
    return SigningStep(scheme, tuple(opened), only, newest.signs_from if newest else None)


def _previous(webhook_id: str, scheme: BaseSignature, keys: Sequence[LaneKey]) -> list[tuple[str, datetime | None]]:
    """Return the keys in a rotation's overlap, except those that cannot be decrypted or used."""
    found: list[tuple[str, datetime | None]] = []
    for key in keys:
        if key.valid_until is None:
            continue
        try:
            text = decrypt(key.token)
        except SecretUnreadableError:
            _report_unreadable(webhook_id)  # receivers that have switched to the current key are not affected
        else:
            if not scheme.problem_with_key(text):
                found.append((text, key.valid_until))
    return found


def _report_unreadable(webhook_id: str) -> None:
    """Log one record per webhook. It is called for every claim."""
    if _reported.is_first(webhook_id):
        text = "Webhook %s is signed without its previous secret, which no encryption key of this worker decrypts."
        logger.error(text, webhook_id, extra={"webhook_id": webhook_id})
