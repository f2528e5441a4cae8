"""The signature schemes and keys of a webhook. Its secret is the key of the scheme ``native``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import prefetch_related_objects
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import known_signatures, settings
from ..database.sql import UtcNow
from ..exceptions import AlreadyInStateError, SecretUnreadableError
from ..protocol.json_data import format_time
from ..reasons import ReasonText
from ..signatures import BaseSignature, NativeSignature
from .audit import Action, Audited
from .base import atomic
from .limits import check_activation, check_overlap, check_secret
from .signing_key import KeyState, SigningKey

SECRET = NativeSignature.name
"""The scheme whose key is the secret."""


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

    def current_key(self, scheme: str, now: datetime | None = None) -> SigningKey | None:
        """Return the key that signs the named headers of the scheme, or None."""
        if scheme in self._new_keys:
            return self._new_keys[scheme]
        return next((key for key in self._keys(scheme) if not key.is_prepared_at(now)), None)

    def prepared_key(self, scheme: str, now: datetime | None = None) -> SigningKey | None:
        """Return the scheme's key that is to be activated, or None."""
        return next((key for key in self._keys(scheme) if key.is_prepared_at(now)), None)

    def previous_key(self, scheme: str, now: datetime | None = None) -> SigningKey | None:
        """Return the scheme's replaced key if it is still valid, or None."""
        replaced = [key for key in self._keys(scheme) if not key.is_prepared_at(now)][1:]
        return next((key for key in replaced if key.signs_at(now)), None)

    @property
    def previous_secret_until(self) -> datetime | None:
        """The end of the previous secret's overlap, or None without one."""
        key = self.previous_key(SECRET)
        return key.valid_until if key else None

    @property
    def has_previous_keys(self) -> bool:
        """Whether a replaced key of any scheme still signs."""
        keys = list(self.signing_keys.all())
        signing = [key.scheme for key in keys if key.signs_at() and not key.is_prepared_at()]
        return len(signing) > len(set(signing))

    @property
    def secret_activates_at(self) -> datetime | None:
        """The activation of the prepared secret, or None without one."""
        key = self.prepared_key(SECRET)
        return key.signs_from if key else None

    @property
    def has_prepared_keys(self) -> bool:
        """Whether a key of any scheme is to be activated."""
        return any(key.is_prepared_at() for key in self.signing_keys.all())

    def require_prepared_keys(self) -> None:
        """Raise AlreadyInStateError if no key is to be activated."""
        if not self.has_prepared_keys:
            raise AlreadyInStateError(ReasonText("no_prepared_secret", id=self.pk))

    def require_previous_keys(self) -> None:
        """Raise AlreadyInStateError if no replaced key signs."""
        if not self.has_previous_keys:
            raise AlreadyInStateError(ReasonText("no_previous_secret", id=self.pk))

    @property
    def public_keys(self) -> list[dict[str, Any]]:
        """The public keys of the selected schemes, newest first: scheme, key, state, activation, and end of validity.

        The state is a value of ``KeyState``.
        """
        schemes = {scheme.key_scheme: scheme for scheme in self.schemes if scheme.is_asymmetric}
        current = {key.pk for scheme in schemes if (key := self.current_key(scheme))}
        return [
            {
                "scheme": key.scheme,
                "key": schemes[key.scheme].verification_key(key.key),
                "state": KeyState.of(key, is_current=key.pk in current),
                "valid_from": key.signs_from if key.is_prepared_at() else None,
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
        self,
        secret: str | None = None,
        *,
        overlap: timedelta | None = None,
        scheme: str = SECRET,
        activate_at: datetime | None = None,
    ) -> str:
        """Replace the key of a scheme, and return the new one. It signs from the next attempt, or ``activate_at``.

        Until ``activate_at`` the new key is prepared: the current one goes on signing the named headers. After that,
        the replaced key also signs for the time of ``overlap``, by default a setting. Older and prepared keys stop
        signing immediately. Passing the current key replaces nothing and withdraws a prepared one, so that requests
        can be repeated safely. A key that cannot sign is replaced at once and without an overlap.

        Raise ValidationError for a key, an overlap, an activation or a scheme that is not permitted.
        """
        overlap = timedelta(seconds=settings.SECRET_OVERLAP_SECONDS) if overlap is None else overlap
        check_overlap(overlap)
        check_activation(activate_at)
        _check_scheme(scheme)
        self._load_keys()
        if secret is not None:
            self._check_new_key(secret, scheme)
        replaced = self.current_key(scheme)
        if replaced is None or secret is None or secret != replaced.readable_key:
            key = secret or known_signatures()[scheme].new_key()
            return self._replace(replaced, SigningKey.of(scheme, key), overlap, activate_at)
        self._withdraw(scheme)
        if not overlap:
            self._end_overlap(scheme)
        return replaced.key

    @atomic
    def activate_secret(self, *, scheme: str = SECRET) -> None:
        """Sign the named headers with the prepared key from the next attempt, and the replaced one for its overlap.

        Without a prepared key, nothing changes. Raise ValidationError for an unknown scheme.
        """
        _check_scheme(scheme)
        self._load_keys()
        prepared = self.prepared_key(scheme)
        if prepared is None or prepared.signs_from is None:
            return
        for key in self._keys(scheme):
            if key.valid_until is not None:
                self.signing_keys.filter(pk=key.pk).update(
                    valid_until=UtcNow() + (key.valid_until - prepared.signs_from)
                )
        self.signing_keys.filter(pk=prepared.pk).update(signs_from=None)
        self.audit(Action.SECRET_ACTIVATED, self._changes_of(scheme, None, prepared))

    @atomic
    def withdraw_secret(self, *, scheme: str = SECRET) -> None:
        """Delete the prepared key. The current one stays. Without a prepared key, nothing changes.

        Raise ValidationError for an unknown scheme.
        """
        _check_scheme(scheme)
        self._load_keys()
        self._withdraw(scheme)

    @atomic
    def revoke_previous_secret(self, *, scheme: str = SECRET) -> None:
        """End the overlap of a rotation. Only the current key signs from the next attempt.

        Raise ValidationError for an unknown scheme.
        """
        _check_scheme(scheme)
        self._load_keys()
        self._end_overlap(scheme)

    def _keys(self, scheme: str) -> Sequence[SigningKey]:
        """Return the saved keys of a scheme, the newest first."""
        return [] if self._state.adding else [key for key in self.signing_keys.all() if key.scheme == scheme]

    def _replace(
        self, replaced: SigningKey | None, new: SigningKey, overlap: timedelta, activate_at: datetime | None
    ) -> str:
        keys = self.signing_keys.of_scheme(new.scheme)
        before, prepared = self.previous_key(new.scheme), self.prepared_key(new.scheme)
        can_sign = replaced is not None and bool(replaced.readable_key) and not self._problem_with(replaced)
        if can_sign and activate_at is not None and activate_at > timezone.now():
            new.signs_from = activate_at
        is_kept = can_sign and (bool(overlap) or new.signs_from is not None)
        keys.exclude(pk=replaced.pk if replaced is not None and is_kept else None).delete()
        # The engine compares the overlap with the database's clock.
        keys.update(signs_from=None, valid_until=new.signs_from + overlap if new.signs_from else UtcNow() + overlap)
        new.webhook_id = self.pk
        new.save(using=self.alias)
        action = Action.SECRET_ROTATED if new.signs_from is None else Action.SECRET_PREPARED
        self.audit(action, self._changes_of(new.scheme, before, prepared))
        return new.key

    def _withdraw(self, scheme: str) -> None:
        prepared = self.prepared_key(scheme)
        if prepared is None:
            return
        keys = self.signing_keys.of_scheme(scheme)
        keys.filter(pk=prepared.pk).delete()
        keys.update(valid_until=None)
        self.audit(Action.SECRET_WITHDRAWN, self._changes_of(scheme, None, prepared))

    def _end_overlap(self, scheme: str) -> None:
        before, current = self.previous_key(scheme), self.current_key(scheme)
        if current is None:
            return
        if self.signing_keys.of_scheme(scheme).filter(pk__lt=current.pk).delete()[0]:
            self.audit(Action.PREVIOUS_SECRET_REVOKED, self._changes_of(scheme, before, self.prepared_key(scheme)))

    def _changes_of(self, scheme: str, previous: SigningKey | None, prepared: SigningKey | None) -> Mapping[str, Any]:
        """Return the audited changes since the scheme had these keys: of the overlap, and of the activation."""
        is_secret = scheme == SECRET
        self._load_keys()
        previous_now, prepared_now = self.previous_key(scheme), self.prepared_key(scheme)
        times = {
            "previous_secret_until" if is_secret else f"{scheme}: previous_key_until": (
                previous.valid_until if previous else None,
                previous_now.valid_until if previous_now else None,
            ),
            "secret_activates_at" if is_secret else f"{scheme}: key_activates_at": (
                prepared.signs_from if prepared else None,
                prepared_now.signs_from if prepared_now else None,
            ),
        }
        return {
            name: [format_time(time) if time else None for time in pair]
            for name, pair in times.items()
            if pair[0] != pair[1]
        }

    def _load_keys(self) -> None:
        """Read the keys once for several questions."""
        self._forget_keys()
        if not self._state.adding:
            prefetch_related_objects([self], "signing_keys")

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
        for scheme in dict.fromkeys(scheme.key_scheme for scheme in self.schemes):
            for key in (self.current_key(scheme), self.prepared_key(scheme)):
                if key is not None and key.readable_key and (problem := self._problem_with(key)):
                    raise ValidationError(f"{problem} {self._hint()}", code="unfit_secret")

    def _problem_with(self, key: SigningKey) -> str:
        """Return why one of the selected schemes cannot sign with a readable key of theirs; "" if all can."""
        for scheme in self.schemes:
            if scheme.key_scheme == key.scheme and (problem := scheme.problem_with_key(key.key)):
                return f"{scheme.name}: {gettext(problem)}"
        return ""

    def _hint(self) -> str:
        if self._state.adding:
            return gettext("Omit the secret to create one.")
        return gettext(
            "Rotate the secret first: a new one has this form, and the old one keeps signing during the overlap."
        )


def _check_scheme(scheme: str) -> None:
    if scheme not in {found.key_scheme for found in known_signatures().values()}:
        raise ValidationError({"scheme": _("Give a signature scheme that has keys of its own.")})
