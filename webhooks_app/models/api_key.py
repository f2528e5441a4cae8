"""Keys that authenticate an account to the REST API; stored hashed."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any, Self

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, models, transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext_lazy as _

from .audit import Action, Audited
from .fields import IdField
from .sql import take_write_lock

LAST_USED_PRECISION = timedelta(minutes=1)
"""How exact ``last_used_at`` is; a write for every request would make a key's row a bottleneck."""

SETTABLE_FIELDS = ("name", "scopes", "expires_at")
"""What an owner sets when a key is made, and may change later."""


def _digest(key: str) -> str:
    # A plain hash is enough: the key has 256 random bits, so there is nothing to guess.
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def all_scopes() -> list[str]:
    return list(ApiKey.Scope.values)


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def owned_by(self, owner: Any) -> Self:
        return self.filter(owner=owner)

    def make(self, **fields: Any) -> tuple[ApiKey, str]:
        """Create a key and return it with its text, which is shown this once and stored nowhere."""
        prefix = secrets.token_hex(6)
        text = f"whk_{prefix}_{secrets.token_urlsafe(32)}"
        api_key = self.model(prefix=prefix, digest=_digest(text), **fields)
        api_key.full_clean()
        with transaction.atomic(using=self.db):
            api_key.save(using=self.db, force_insert=True)
            api_key.audit_creation(Action.KEY_CREATED)
        return api_key, text

    def find(self, text: str) -> ApiKey | None:
        """Return the valid key of an active account with this text."""
        parts = text.split("_", 2)
        if len(parts) != 3 or parts[0] != "whk" or not parts[1].isalnum() or not parts[1].isascii():
            return None
        api_key = self.select_related("owner").filter(prefix=parts[1]).first()
        if api_key is None or not constant_time_compare(api_key.digest, _digest(text)):
            return None
        return api_key if api_key.is_valid() and api_key.owner.is_active else None


class ApiKey(Audited):
    audited_fields = ("prefix", *SETTABLE_FIELDS)

    class Scope(models.TextChoices):
        WEBHOOKS_READ = "webhooks:read", _("read webhooks and deliveries")
        WEBHOOKS_WRITE = "webhooks:write", _("create, change and delete webhooks, redeliver")
        WEBHOOKS_TEST = "webhooks:test", _("send test events and verify")
        EVENTS_READ = "events:read", _("read events")

    id = IdField(prefix="key")
    name = models.CharField(_("name"), max_length=100, blank=True)
    owner = models.ForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=models.CASCADE,
        related_name="webhook_api_keys",
    )
    prefix = models.CharField(_("prefix"), max_length=12, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(_("scopes"), default=all_scopes)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"whk_{self.prefix}_… {self.name}".rstrip()

    def clean(self) -> None:
        scopes: object = self.scopes
        is_list = isinstance(scopes, list | tuple)
        if not (is_list and scopes and all(scope in self.Scope.values for scope in self.scopes)):
            raise ValidationError(
                {"scopes": _("Give one or more of: %(scopes)s.") % {"scopes": ", ".join(self.Scope.values)}}
            )

    def is_valid(self, at: datetime | None = None) -> bool:
        return self.revoked_at is None and (self.expires_at is None or (at or timezone.now()) < self.expires_at)

    def allows(self, scope: str) -> bool:
        return scope in self.scopes

    @transaction.atomic
    def change(self) -> None:
        """Save what may be changed of a key."""
        take_write_lock(self._state.db or DEFAULT_DB_ALIAS, ApiKey)
        saved = ApiKey.objects.select_for_update().get(pk=self.pk)
        with self.auditing(Action.KEY_CHANGED, since=saved):
            self.save(update_fields=SETTABLE_FIELDS)

    @transaction.atomic
    def revoke(self) -> None:
        """Refuse this key from the next request on; the time of the first revocation stays."""
        if ApiKey.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=timezone.now()):
            self.audit(Action.KEY_REVOKED)
        self.refresh_from_db(fields=["revoked_at"])

    @transaction.atomic
    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        self.audit(Action.KEY_DELETED)
        return super().delete(*args, **kwargs)

    def touch(self) -> None:
        """Record that the key was used, to the minute."""
        now = timezone.now()
        if self.last_used_at is None or now - self.last_used_at >= LAST_USED_PRECISION:
            self.last_used_at = now
            stale = models.Q(last_used_at=None) | models.Q(last_used_at__lte=now - LAST_USED_PRECISION)
            # Of many requests at once, one writes: the others find the row fresh by the time they get it.
            ApiKey.objects.filter(stale, pk=self.pk).update(last_used_at=now)
