"""What a webhook's deliveries are signed with: its secret, and for a while the one before."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..encryption import decrypt, encrypt
from ..exceptions import SecretUnreadableError
from .audit import Action, Audited
from .limits import check_overlap, check_secret, new_secret
from .sql import UtcNow


class SigningSecret(Audited):
    """The part of a webhook that is its secret."""

    encrypted_secret = models.TextField(editable=False)
    encrypted_previous_secret = models.TextField(default="", editable=False)
    previous_secret_until = models.DateTimeField(_("previous secret signs until"), null=True, editable=False)

    class Meta:
        abstract = True

    if TYPE_CHECKING:

        def lock(self) -> Self: ...

    @property
    def secret(self) -> str:
        """The text that keys the signature. Raises SecretUnreadableError."""
        return decrypt(self.encrypted_secret)

    @secret.setter
    def secret(self, secret: str) -> None:
        self.encrypted_secret = encrypt(secret)

    @transaction.atomic
    def rotate_secret(self, secret: str | None = None, *, overlap: timedelta | None = None) -> str:
        """Sign with a new secret from the next attempt on, and return it: it is shown this once.

        For the time of ``overlap``, by default a setting, the secret that it replaces signs too, in a header of its
        own. One that was replaced before signs nothing any more. The current secret once more replaces nothing, so that
        a repeated request does no harm. A secret that no encryption key opens is replaced without an overlap.

        Raises django.core.exceptions.ValidationError for a secret or an overlap that is not allowed.
        """
        overlap = timedelta(seconds=settings.SECRET_OVERLAP_SECONDS) if overlap is None else overlap
        check_overlap(overlap)
        if secret is not None:
            check_secret(secret)
        saved = self.lock()
        replaced = _readable_secret(saved)
        if secret is None or secret != replaced:
            with self.auditing(Action.SECRET_ROTATED):
                self._replace(secret or new_secret(), replaced if overlap else "", overlap)
        else:
            self.encrypted_secret = saved.encrypted_secret
            if not overlap:
                self._end_overlap()
        return self.secret

    @transaction.atomic
    def revoke_previous_secret(self) -> None:
        """End the overlap of a rotation: from the next attempt on, the current secret signs alone."""
        self.lock()
        self._end_overlap()

    def _replace(self, secret: str, previous: str, overlap: timedelta) -> None:
        self.secret = secret
        self.encrypted_previous_secret = encrypt(previous) if previous else ""
        # The database's clock, by which the engine decides whether the overlap has ended.
        self.previous_secret_until = UtcNow() + overlap if previous else None
        self.save(update_fields=["encrypted_secret", "encrypted_previous_secret", "previous_secret_until"])
        self.refresh_from_db(fields=["previous_secret_until"])

    def _end_overlap(self) -> None:
        if self.previous_secret_until is None:
            return
        with self.auditing(Action.PREVIOUS_SECRET_REVOKED):
            self.encrypted_previous_secret, self.previous_secret_until = "", None
            self.save(update_fields=["encrypted_previous_secret", "previous_secret_until"])

    def _clean_secret(self) -> None:
        if not self.encrypted_secret:
            self.secret = new_secret()
        elif self._state.adding:
            check_secret(self.secret)


def _readable_secret(webhook: SigningSecret) -> str:
    """Return the webhook's secret, or "" where no encryption key opens it."""
    try:
        return webhook.secret
    except SecretUnreadableError:
        return ""
