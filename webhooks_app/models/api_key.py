"""API keys of accounts for the REST API. They are stored as hashes."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext_lazy as _

from ..database.sql import CompiledRows, Slot
from ..encryption import Masked
from ..exceptions import AlreadyInStateError, WebhookStateError
from ..owners import owners
from ..reasons import ReasonText
from .audit import Action, Audited
from .base import BaseQuerySet, atomic
from .fields import CurrentForeignKey, IdField, OwnerField, PartialIndex

LAST_USED_PRECISION = timedelta(minutes=1)
"""The precision of ``last_used_at``. A write for every request would make a key's row a bottleneck."""

SETTABLE_FIELDS = ("name", "scopes", "expires_at")
"""The fields that an owner sets at creation and can change later."""


SERVICE_SCOPES = frozenset({"events:emit"})
"""The scopes of service keys. No other key can have them."""


def _digest(key: str) -> str:
    # A plain hash is sufficient, because the key has 256 random bits.
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def _prefix(text: str) -> str | None:
    """Return the part of a key that identifies its row, or None if the text is not a key."""
    parts = text.split("_", 2)
    is_key = len(parts) == 3 and parts[0] == "whk" and parts[1].isalnum() and parts[1].isascii()
    return parts[1] if is_key else None


@lru_cache(maxsize=8)
def _rows_by_prefix(using: str) -> CompiledRows[ApiKey]:
    return CompiledRows(ApiKey.objects.using(using).filter(prefix=Slot("prefix")).order_by())


def owner_scopes() -> list[str]:
    """Return the default scopes of a new key: all that an owner's key can have."""
    return [scope for scope in ApiKey.Scope.values if scope not in SERVICE_SCOPES]


class ApiKeyQuerySet(BaseQuerySet["ApiKey"]):
    def make(self, **fields: Any) -> tuple[ApiKey, str]:
        """Create a key and return it with its text, which is shown only once and never stored."""
        prefix = secrets.token_hex(6)
        text = Masked(f"whk_{prefix}_{secrets.token_urlsafe(32)}")
        api_key = self.model(prefix=prefix, digest=_digest(text), **fields)
        api_key.full_clean()
        with transaction.atomic(using=self.db):
            api_key.save(using=self.db, force_insert=True)
            api_key.audit_creation(Action.KEY_CREATED)
        return api_key, text

    def find(self, text: str) -> ApiKey | None:
        """Return the valid key with this text if its account is active."""
        prefix = _prefix(text)
        if prefix is None:
            return None
        rows = self.filter(prefix=prefix).select_related("owner", "created_by").order_by()
        api_key = next(iter(rows), None)  # unlike `first`, without an order, which costs time in each request
        if api_key is None or not api_key.has_text(text) or not api_key.is_valid():
            return None
        return api_key if api_key.is_service_key or owners().is_active(api_key.owner) else None

    def find_service_key(self, text: str) -> ApiKey | None:
        """Return the valid service key with this text, in a fifth of the time of ``find``."""
        prefix = _prefix(text)
        rows = _rows_by_prefix(self.db).fetch_objects({"prefix": prefix}) if prefix else []
        return next((key for key in rows if key.is_service_key and key.has_text(text) and key.is_valid()), None)


class ApiKey(Audited):
    """The methods that change a row expect that the caller has locked it, as operations do."""

    audited_fields = ("prefix", *SETTABLE_FIELDS)

    class Scope(models.TextChoices):
        WEBHOOKS_READ = "webhooks:read", _("read webhooks and deliveries")
        WEBHOOKS_WRITE = "webhooks:write", _("create, change and delete webhooks, redeliver")
        WEBHOOKS_TEST = "webhooks:test", _("send test events and verify")
        EVENTS_READ = "events:read", _("read events")
        EVENTS_EMIT = "events:emit", _("emit events, for service keys without an account")

    id = IdField(prefix="key")
    name = models.CharField(_("name"), max_length=100, blank=True)
    owner = OwnerField(
        verbose_name=_("account"),
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,  # maintenance.forgetting deletes it before its owner
        related_name="webhook_api_keys",
        help_text=_("Empty for a service key, which can only emit events, for all accounts."),
    )
    created_by = CurrentForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("created by"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    prefix = models.CharField(_("prefix"), max_length=12, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(_("scopes"), default=owner_scopes)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    revoked_at = models.DateTimeField(_("revocation"), null=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ("-id",)
        indexes = (
            PartialIndex(
                fields=("expires_at",),
                only=models.Q(expires_at__isnull=False, revoked_at=None),
                name="webhooks_apikey_expiry",
            ),
        )

    def __str__(self) -> str:
        return f"whk_{self.prefix}_… {self.name}".rstrip()

    @property
    def is_service_key(self) -> bool:
        """Whether the key belongs to another service of the project, which emits events for all owners."""
        return self.owner_id is None

    @property
    def user(self) -> Any:
        """The acting user: the owner, if owners are users, otherwise the creator."""
        return self.owner if isinstance(self.owner, get_user_model()) else self.created_by

    def clean(self) -> None:
        scopes: object = self.scopes
        is_list = isinstance(scopes, list | tuple)
        if not (is_list and scopes and all(scope in self.Scope.values for scope in self.scopes)):
            raise ValidationError(
                {"scopes": _("Give one or more of: %(scopes)s.") % {"scopes": ", ".join(self.Scope.values)}}
            )
        if self.is_service_key and set(self.scopes) != SERVICE_SCOPES:
            raise ValidationError(
                {"scopes": _("A key without an account is a service key: its only scope is events:emit.")}
            )
        if not self.is_service_key and SERVICE_SCOPES.intersection(self.scopes):
            raise ValidationError({"scopes": _("Only a service key, which has no account, has the scope events:emit.")})

    def has_text(self, text: str) -> bool:
        return constant_time_compare(self.digest, _digest(text))

    def is_valid(self, at: datetime | None = None) -> bool:
        return self.revoked_at is None and (self.expires_at is None or (at or timezone.now()) < self.expires_at)

    def lock(self) -> Self:
        """Lock the key until the end of a transaction of ``writing()``, and reload what ``change`` does not save.

        Return another instance of the saved row. Raise WebhookStateError if the key is deleted.
        """
        saved = self.lock_saved()
        if saved is None:
            raise WebhookStateError(ReasonText("api_key_deleted", id=str(self.pk)))
        self.owner_id, self.revoked_at = saved.owner_id, saved.revoked_at
        return saved

    @atomic
    def change(self, *, since: ApiKey) -> None:
        """Save the changeable fields, which differ from those of the locked row."""
        with self.auditing(Action.KEY_CHANGED, since=since):
            self.save(update_fields=SETTABLE_FIELDS)

    def require_unrevoked(self) -> None:
        """Raise AlreadyInStateError for a revoked key."""
        if self.revoked_at is not None:
            raise AlreadyInStateError(ReasonText("key_already_revoked", id=self.pk))

    @atomic
    def revoke(self, reason: str = "") -> None:
        """Refuse the key from the next request. Raise AlreadyInStateError for a revoked key."""
        self.require_unrevoked()
        self.revoked_at = timezone.now()
        self.save(update_fields=["revoked_at"])
        self.audit(Action.KEY_REVOKED, reason=reason)

    @atomic
    def delete(self, /, *args: Any, reason: str = "", **kwargs: Any) -> tuple[int, dict[str, int]]:
        self.audit(Action.KEY_DELETED, reason=reason)
        return super().delete(*args, **kwargs)

    def touch(self) -> None:
        """Record the use of the key, to the minute."""
        now = timezone.now()
        if self.last_used_at is None or now - self.last_used_at >= LAST_USED_PRECISION:
            self.last_used_at = now
            stale = models.Q(last_used_at=None) | models.Q(last_used_at__lte=now - LAST_USED_PRECISION)
            # The condition allows one write among concurrent requests.
            ApiKey.objects.filter(stale, pk=self.pk).update(last_used_at=now)
