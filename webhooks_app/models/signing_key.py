"""A key with which the requests of a webhook are signed, and what it signs at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..database.sql import UtcNow
from ..encryption import decrypt, encrypt
from ..exceptions import SecretUnreadableError
from .base import BaseModel, BaseQuerySet


class SigningKeyQuerySet(BaseQuerySet["SigningKey"]):
    def necessary(self) -> Self:
        """Return the keys without which nothing can be sent: the newest, and the one that a prepared key will replace.

        A replaced key that only signs for an overlap is not among them.
        """
        same = self.model._default_manager.filter(webhook=models.OuterRef("webhook"), scheme=models.OuterRef("scheme"))
        return self.filter(models.Q(valid_until=None) | models.Exists(same.filter(signs_from__gt=UtcNow())))

    def of_scheme(self, scheme: str) -> Self:
        return self.filter(scheme=scheme)

    def valid(self) -> Self:
        """Return the keys in use, by the database's clock."""
        return self.filter(models.Q(valid_until=None) | models.Q(valid_until__gt=UtcNow()))

    def delete_expired(self) -> int:
        """Delete the keys after their overlap. Return their number."""
        return self.filter(valid_until__lte=UtcNow()).delete()[0]


class KeyState(models.TextChoices):
    """What a key signs: the named headers, or those for receivers that have another key, before or after."""

    NEXT = "next", _("next")
    CURRENT = "current", _("current")
    PREVIOUS = "previous", _("previous")

    @classmethod
    def of(cls, key: SigningKey, *, is_current: bool) -> KeyState:
        if key.is_prepared_at():
            return cls.NEXT
        return cls.CURRENT if is_current else cls.PREVIOUS


class SigningKey(BaseModel):
    """A key of one webhook and scheme.

    Only a replaced key has a ``valid_until``, the end of its overlap. A prepared key has a ``signs_from`` in the
    future, its activation; until then the key that it replaces signs the named headers. Nothing is written then.
    """

    webhook = models.ForeignKey(
        "webhooks_app.Webhook",
        verbose_name=_("webhook"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="signing_keys",
        db_index=False,
    )
    scheme = models.CharField(_("signature scheme"), max_length=40, editable=False)
    encrypted_key = models.TextField(editable=False)
    valid_until = models.DateTimeField(_("signs until"), null=True, editable=False)
    signs_from = models.DateTimeField(_("activation"), null=True, editable=False)

    objects = SigningKeyQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("signing key")
        verbose_name_plural = _("signing keys")
        default_permissions = ()
        ordering = ("-pk",)
        indexes = (models.Index(fields=("webhook", "-id"), name="webhooks_signingkey_webhook"),)

    def __str__(self) -> str:
        return f"{self.webhook_id}, {self.scheme}"

    @classmethod
    def of(cls, scheme: str, key: str) -> Self:
        """Return an unsaved key with its value encrypted."""
        return cls(scheme=scheme, encrypted_key=encrypt(key))

    @property
    def key(self) -> str:
        """The key in plain text. Raise SecretUnreadableError if no encryption key decrypts it."""
        return decrypt(self.encrypted_key)

    @property
    def readable_key(self) -> str:
        """The key in plain text, or "" if no encryption key decrypts it."""
        try:
            return self.key
        except SecretUnreadableError:
            return ""

    def signs_at(self, now: datetime | None = None) -> bool:
        return self.valid_until is None or self.valid_until > (now or timezone.now())

    def is_prepared_at(self, now: datetime | None = None) -> bool:
        return self.signs_from is not None and self.signs_from > (now or timezone.now())
