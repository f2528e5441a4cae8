"""The signature schemes and keys of a webhook. Its secret is the key of the scheme ``native``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import known_signatures, settings
from ..database.sql import UtcNow
from ..encryption import decrypt, encrypt
from ..exceptions import SecretUnreadableError
from ..protocol.json_data import format_time
from ..reasons import ReasonText
from ..signatures import BaseSignature, NativeSignature
from .audit import Action, Audited
from .base import BaseModel, BaseQuerySet, atomic
from .limits import check_overlap, check_secret

if TYPE_CHECKING:
    from datetime import datetime

SECRET = NativeSignature.name
"""The scheme whose key is the secret."""


class SigningKeyQuerySet(BaseQuerySet["SigningKey"]):
    def current(self) -> Self:
        return self.filter(valid_until=None)

    def of_scheme(self, scheme: str) -> Self:
        return self.filter(scheme=scheme)

    def valid(self) -> Self:
        """Return the keys in use, by the database's clock."""
        return self.filter(models.Q(valid_until=None) | models.Q(valid_until__gt=UtcNow()))

    def delete_expired(self) -> int:
        """Delete the keys after their overlap. Return their number."""
        return self.filter(valid_until__lte=UtcNow()).delete()[0]


class SigningKey(BaseModel):
    """A key of one webhook and scheme. Only a replaced key has a ``valid_until``, the end of its overlap."""

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


def default_signatures() -> list[str]:
    return [NativeSignature.name]


class SigningSecret(Audited):
    """A mixin for webhooks with signature schemes and keys."""

    signatures = models.JSONField(_("signatures"), default=default_signatures)

    if TYPE_CHECKING:
        signing_keys: Any

    class Meta:
        abstract = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._new_keys: dict[str, SigningKey] = {}
        super().__init__(*args, **kwargs)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the webhook, and insert its new keys."""
        if not self._new_keys:
            super().save(*args, **kwargs)
            return
        with transaction.atomic(using=kwargs.get("using") or self.alias, savepoint=False):
            super().save(*args, **kwargs)
            for key in self.take_new_keys():
                key.save(force_insert=True, using=self.alias)

    def take_new_keys(self) -> list[SigningKey]:
        """Return the keys not yet inserted, and clear them."""
        keys, self._new_keys = list(self._new_keys.values()), {}
        for key in keys:
            key.webhook_id = self.pk
        return keys

    @property
    def secret(self) -> str:
        """The signing secret. Raise SecretUnreadableError if there is none that can be decrypted."""
        key = self.current_key(SECRET)
        if key is None:
            raise SecretUnreadableError(ReasonText("secret_missing", id=self.pk))
        return key.key

    @secret.setter
    def secret(self, secret: str) -> None:
        if not self._state.adding:
            raise TypeError("The secret of a saved webhook is changed by rotate_secret().")
        self._new_keys[SECRET] = SigningKey.of(SECRET, secret)

    @property
    def schemes(self) -> Sequence[BaseSignature]:
        """The selected schemes that are still configured."""
        known = known_signatures()
        return [known[name] for name in self.signatures if name in known]

    def current_key(self, scheme: str) -> SigningKey | None:
        """Return the scheme's key without an end of validity, or None."""
        return self._new_keys.get(scheme) or self._key(scheme, is_current=True)

    def previous_key(self, scheme: str, now: datetime | None = None) -> SigningKey | None:
        """Return the scheme's replaced key if it is still valid, or None."""
        key = self._key(scheme, is_current=False)
        return key if key is not None and key.signs_at(now) else None

    @property
    def previous_secret_until(self) -> datetime | None:
        """The end of the previous secret's overlap, or None without one."""
        key = self.previous_key(SECRET)
        return key.valid_until if key else None

    @property
    def has_previous_keys(self) -> bool:
        """Whether a replaced key of any scheme still signs."""
        return any(key.valid_until is not None and key.signs_at() for key in self.signing_keys.all())

    @property
    def public_keys(self) -> list[dict[str, Any]]:
        """The public keys of the selected schemes, current ones first: scheme, key, and end of validity."""
        schemes = {scheme.key_scheme: scheme for scheme in self.schemes if scheme.is_asymmetric}
        return [
            {
                "scheme": key.scheme,
                "key": schemes[key.scheme].verification_key(key.key),
                "valid_until": key.valid_until,
            }
            for key in self.signing_keys.all()
            if key.scheme in schemes and key.signs_at() and key.readable_key
        ]

    @property
    def verification_keys(self) -> list[str]:
        """The verification keys of all selected schemes. Raise SecretUnreadableError if one cannot be decrypted."""
        schemes = {scheme.key_scheme: scheme for scheme in self.schemes}
        keys = [key for key in self.signing_keys.all() if key.scheme in schemes and key.signs_at()]
        return [schemes[key.scheme].verification_key(key.key) for key in keys]

    def create_missing_keys(self) -> None:
        """Create a key for each selected scheme without one."""
        for scheme in self.schemes:
            if self.current_key(scheme.key_scheme) is None:
                key = SigningKey.of(scheme.key_scheme, scheme.new_key())
                if self._state.adding:
                    self._new_keys[scheme.key_scheme] = key
                else:
                    key.webhook_id = self.pk
                    key.save(using=self.alias)

    @atomic
    def rotate_secret(
        self, secret: str | None = None, *, overlap: timedelta | None = None, scheme: str = SECRET
    ) -> str:
        """Replace the key of a scheme, and return the new one. It signs from the next attempt.

        The replaced key also signs for the time of ``overlap``, by default a setting. Older keys stop signing
        immediately. Passing the current key replaces nothing, so that requests can be repeated safely. A key that
        cannot be decrypted is replaced without an overlap.

        Raise ValidationError for a key, an overlap or a scheme that is not permitted.
        """
        overlap = timedelta(seconds=settings.SECRET_OVERLAP_SECONDS) if overlap is None else overlap
        check_overlap(overlap)
        _check_scheme(scheme)
        if secret is not None:
            self._check_new_key(secret, scheme)
        replaced = self.current_key(scheme)
        if replaced is None or secret is None or secret != replaced.readable_key:
            key = secret or known_signatures()[scheme].new_key()
            return self._replace(replaced, SigningKey.of(scheme, key), overlap)
        if not overlap:
            self._end_overlap(scheme)
        return replaced.key

    @atomic
    def revoke_previous_secret(self, *, scheme: str = SECRET) -> None:
        """End the overlap of a rotation. Only the current key signs from the next attempt.

        Raise ValidationError for an unknown scheme.
        """
        _check_scheme(scheme)
        self._end_overlap(scheme)

    def _key(self, scheme: str, *, is_current: bool) -> SigningKey | None:
        if self._state.adding:
            return None
        keys = (key for key in self.signing_keys.all() if key.scheme == scheme)
        return next((key for key in keys if (key.valid_until is None) == is_current), None)

    def _replace(self, replaced: SigningKey | None, new: SigningKey, overlap: timedelta) -> str:
        keys = self.signing_keys.of_scheme(new.scheme)
        before = self.previous_key(new.scheme)
        overlaps = replaced is not None and bool(replaced.readable_key) and bool(overlap)
        keys.exclude(pk=replaced.pk if replaced is not None and overlaps else None).delete()
        # The engine compares the overlap with the database's clock.
        keys.update(valid_until=UtcNow() + overlap)
        new.webhook_id = self.pk
        new.save(using=self.alias)
        self._forget_keys()
        self.audit(Action.SECRET_ROTATED, self._changes_of(new.scheme, before))
        return new.key

    def _end_overlap(self, scheme: str) -> None:
        before = self.previous_key(scheme)
        keys = self.signing_keys.of_scheme(scheme)
        if keys.exclude(valid_until=None).delete()[0]:
            self._forget_keys()
            self.audit(Action.PREVIOUS_SECRET_REVOKED, self._changes_of(scheme, before))

    def _changes_of(self, scheme: str, before: SigningKey | None) -> Mapping[str, Any]:
        """Return the audited change of the overlap."""
        after = self.previous_key(scheme)
        was, is_now = (key.valid_until if key else None for key in (before, after))
        name = "previous_secret_until" if scheme == SECRET else f"{scheme}: previous_key_until"
        if was == is_now:
            return {}
        return {name: [format_time(was) if was else None, format_time(is_now) if is_now else None]}

    def _forget_keys(self) -> None:
        getattr(self, "_prefetched_objects_cache", {}).pop("signing_keys", None)

    def _check_new_key(self, key: str, scheme: str) -> None:
        known = known_signatures()
        if scheme == SECRET:
            check_secret(key)
        users = [found for name, found in known.items() if name in self.signatures and found.key_scheme == scheme]
        for found in users or [known[scheme]]:
            if problem := found.problem_with_key(key):
                raise ValidationError({"secret": gettext(problem)})

    def _clean_secret(self) -> None:
        """Validate the secret of a new webhook, or create one."""
        if SECRET in self._new_keys:
            check_secret(self.secret)
        else:
            self.secret = NativeSignature().new_key()

    def _clean_signatures(self) -> None:
        """Validate the list, and the key of each scheme."""
        names = self.signatures
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
            raise ValidationError(_("Give a list of at least one signature scheme."), code="signatures")
        known = known_signatures()
        self.signatures = [name for name in known if name in names]
        if unknown := [name for name in names if name not in known]:
            raise ValidationError(
                _("%(names)s: unknown signature scheme. Known: %(known)s."),
                code="unknown_signature",
                params={"names": ", ".join(unknown)[:200], "known": ", ".join(known)},
            )
        for scheme in self.schemes:
            key = self.current_key(scheme.key_scheme)
            problem = scheme.problem_with_key(key.readable_key) if key is not None and key.readable_key else ""
            if problem:
                raise ValidationError(f"{scheme.name}: {gettext(problem)} {self._hint()}", code="unfit_secret")

    def _hint(self) -> str:
        if self._state.adding:
            return gettext("Omit the secret to create one.")
        return gettext(
            "Rotate the secret first: a new one has this form, and the old one keeps signing during the overlap."
        )


def _check_scheme(scheme: str) -> None:
    if scheme not in {found.key_scheme for found in known_signatures().values()}:
        raise ValidationError({"scheme": _("Give a signature scheme that has keys of its own.")})
