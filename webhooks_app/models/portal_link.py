"""Links to the customers' pages, and the sessions that they open.

A link is a row from its creation, so that it can be revoked before it is used, and so that one UPDATE decides which of
two simultaneous requests opens it. An opened link is a session. Neither the text of a link nor that of a session is
stored: the first is signed, and the second only compared by its digest.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Self

from django.conf import settings as django_settings
from django.core import signing
from django.db import models, router
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from ..database.sql import writing
from ..owners import Access
from .audit import Audited
from .base import BaseQuerySet
from .fields import CompactJSONField, CurrentForeignKey, IdField, OwnerField

SESSION_AGE = timedelta(hours=1)
"""How long the session of an opened link lasts."""

SALT = "webhooks_app.portal.link"


def _signer() -> signing.Signer:
    # Without the fallbacks: whoever changes SECRET_KEY ends all links, also during the overlap of other signatures.
    return signing.Signer(salt=SALT, fallback_keys=[])


def digest_of(session: str) -> str:
    """Return what is stored of the text of a session."""
    return salted_hmac(f"{SALT}.session", session, algorithm="sha256").hexdigest()


class PortalLinkQuerySet(BaseQuerySet["PortalLink"]):
    def expired(self, now: datetime) -> Self:
        return self.filter(expires_at__lte=now)

    def with_text(self, text: str) -> PortalLink | None:
        """Return the link with this text, opened or not, until it expires."""
        try:
            pk = _signer().unsign(text)
        except signing.BadSignature:
            return None
        return self._valid().filter(pk=pk).first()

    def with_session(self, session: str) -> PortalLink | None:
        """Return the opened link with this session, until it ends."""
        return self._valid().filter(digest=digest_of(session)).first()

    def _valid(self) -> Self:
        return self.filter(expires_at__gt=timezone.now()).select_related("owner", "user").order_by()


class PortalLink(Audited):
    id = IdField(prefix="lnk")
    # No constraint, whose lock on the owner's row would lead to deadlocks with operations that lock the owner.
    owner = OwnerField(
        verbose_name=_("account"),
        editable=False,
        on_delete=models.DO_NOTHING,  # maintenance.forgetting deletes it before its owner
        related_name="+",
        db_constraint=False,
    )
    # A link without a user has no limit but its rights, so it must not outlive the user.
    user = CurrentForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="+",
        db_constraint=False,
        help_text="User whose rights limit those of the link; empty if its rights are the only limit.",
    )
    rights = CompactJSONField(default=list, editable=False)
    path = models.CharField(max_length=200, blank=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), editable=False)
    opened_at = models.DateTimeField(_("opened"), null=True, editable=False)
    digest = models.CharField(max_length=64, null=True, unique=True, editable=False)  # noqa: DJ001 - unique if present
    is_framed = models.BooleanField(default=False, editable=False)
    data = CompactJSONField(default=dict, editable=False)

    objects = PortalLinkQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("link to the customers' pages")
        verbose_name_plural = _("links to the customers' pages")
        default_permissions = ("add",)

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def text(self) -> str:
        """The signed text of the link, for its URL."""
        return _signer().sign(self.pk)

    @property
    def access(self) -> Access:
        """The rights of the link, whatever its user may do."""
        access = Access.READ
        for name in self.rights:
            access |= Access[name.upper()]
        return access

    def keep(self, name: str, change: Callable[[Any], Any]) -> None:
        """Store a value for the pages of this session, made from the present one; None removes it.

        The present value is read again, because another request of the session may have changed it.
        """
        with writing(self.alias, PortalLink):
            rows = PortalLink.objects.using(self.alias).filter(pk=self.pk)
            stored = rows.select_for_update().values_list("data", flat=True).first() or {}
            self.data = {**stored, name: change(stored.get(name))}
            self.data = {key: each for key, each in self.data.items() if each is not None}
            rows.update(data=self.data)

    @classmethod
    def create(cls, *, expires: timedelta, **fields: Any) -> PortalLink:
        link = cls(expires_at=timezone.now() + expires, **fields)
        link.save(using=router.db_for_write(cls, instance=link), force_insert=True)
        return link
