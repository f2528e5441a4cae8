"""Announcements: what the owner of a webhook or an API key is told by mail, and how often the owner wants mails.

An announcement is a row, so that it is made once whichever worker finds its reason, is held back by any worker, and
outlives all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..protocol.ids import first_id_at
from ..reasons import code_of
from .api_key import ApiKey
from .audit import Audited
from .base import BaseModel, BaseQuerySet
from .fields import CompactJSONField, IdField, OwnerField, PartialIndex
from .webhook import Webhook


class AnnouncementQuerySet(BaseQuerySet["Announcement"]):
    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Insert the announcements, except those that were made before."""
        self.bulk_create(announcements, ignore_conflicts=True)

    def due(self, now: datetime) -> Self:
        return self.filter(due_at__lte=now)

    def waiting(self) -> Self:
        """Return the announcements whose mail is not sent yet."""
        return self.filter(due_at__isnull=False)

    def mailed(self) -> Self:
        return self.filter(mailed_at__isnull=False)

    def owned_by(self, owner: Any) -> Self:
        return self.filter(models.Q(webhook__owner=owner) | models.Q(api_key__owner=owner))

    def expired(self, before: datetime) -> Self:
        """Return the settled announcements made before a time, except those of a pause that still lasts."""
        lasts = models.Q(kind=Announcement.Kind.PAUSED, webhook__paused_at=models.F("since"))
        return self.filter(due_at=None, pk__lt=first_id_at("ann", before)).exclude(lasts)


class Announcement(BaseModel):
    """Something that an owner is told by mail, about a webhook or about an API key."""

    class Kind(models.TextChoices):
        FAILING = "failing"
        WARNING = "warning"
        RECOVERED = "recovered"
        DISABLED = "disabled"
        VERIFICATION_FAILED = "verification_failed"
        URL_REFUSED = "url_refused"
        UNVERIFIED = "unverified"
        PAUSED = "paused"
        KEY_EXPIRES = "key_expires"
        KEY_EXPIRES_SOON = "key_expires_soon"

    id = IdField(prefix="ann")
    # No constraints: a fold, which announces recoveries, must not wait for a claim.
    webhook = models.ForeignKey(
        Webhook, null=True, on_delete=models.CASCADE, related_name="announcements", db_constraint=False, db_index=False
    )
    api_key = models.ForeignKey(
        ApiKey, null=True, on_delete=models.CASCADE, related_name="announcements", db_constraint=False, db_index=False
    )
    kind = models.CharField(max_length=20)
    """A ``Kind``, which names the template of its mail."""
    since = models.DateTimeField()
    """The time that tells one occasion from the next: the start of the failure, the change of the status, the start of
    the pause, the expiry of the key."""
    facts = CompactJSONField(default=dict)
    """What the mail says about it, as JSON."""
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    """When it is next considered for a mail; None once it is mailed, or will never be."""
    mailed_at = models.DateTimeField(null=True)
    """The same in all announcements of one mail; None if it is in none."""

    objects = AnnouncementQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("announcement")
        verbose_name_plural = _("announcements")
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=("webhook", "kind", "since"), name="webhooks_announcement_webhook"),
            models.UniqueConstraint(fields=("api_key", "kind", "since"), name="webhooks_announcement_key"),
        )
        indexes = (
            PartialIndex(fields=("due_at",), only=models.Q(due_at__isnull=False), name="webhooks_announcement_due"),
        )

    def __str__(self) -> str:
        return f"{self.kind} since {self.since}: {self.webhook_id or self.api_key_id}"

    @property
    def subject(self) -> Webhook | ApiKey:
        """The webhook or the API key that it is about."""
        subject = self.webhook or self.api_key
        assert subject is not None
        return subject

    @property
    def is_true(self) -> bool:
        """Whether it still holds, so that it is worth a mail. What a webhook went through stays true."""
        kinds, webhook, api_key = self.Kind, self.webhook, self.api_key
        if api_key is not None:
            return api_key.revoked_at is None and api_key.expires_at == self.since
        if webhook is None or webhook.is_deleted:
            return False
        if self.kind == kinds.PAUSED:
            return webhook.paused_at == self.since
        if self.kind == kinds.URL_REFUSED:
            return code_of(webhook.status_reason) == "new_url_failed"
        if self.kind in (kinds.VERIFICATION_FAILED, kinds.UNVERIFIED):
            status = webhook.Status.PENDING if self.kind == kinds.UNVERIFIED else webhook.Status.FAILED
            return webhook.status == status and webhook.status_changed_at == self.since
        return True


class MailPreferenceQuerySet(BaseQuerySet["MailPreference"]):
    def of(self, owner: Any) -> str:
        """Return how often an owner wants mails."""
        chosen = self.filter(owner=owner.pk).values_list("mails", flat=True).first()
        return chosen or MailPreference.Mails.AT_ONCE

    def by_owner(self, owner_ids: Collection[Any]) -> dict[Any, str]:
        """Return how often these owners want mails, by primary key, without those who have not chosen."""
        return dict(self.filter(owner__in=owner_ids).values_list("owner_id", "mails"))


class MailPreference(Audited):
    """How often an owner wants mails about webhooks and API keys.

    It belongs to the owner and not to each webhook, because keys have no webhook, and because a daily summary is one
    mail about all of them. An owner who has not chosen has no row.
    """

    audited_fields = ("mails",)

    class Mails(models.TextChoices):
        AT_ONCE = "at_once", _("at once")
        DAILY = "daily", _("as a daily summary")
        NONE = "none", _("none")

    id = IdField(prefix="mpr")
    # No constraint, whose lock on the owner's row would lead to deadlocks with operations that lock the owner.
    owner = OwnerField(
        verbose_name=_("account"),
        editable=False,
        on_delete=models.DO_NOTHING,  # maintenance.forgetting deletes it before its owner
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    mails = models.CharField(_("mails"), max_length=10, choices=Mails, default=Mails.AT_ONCE)

    objects = MailPreferenceQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("choice of mails")
        verbose_name_plural = _("choices of mails")
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("owner",), name="webhooks_mails_owner"),)

    def __str__(self) -> str:
        return f"{self.owner_id}: {self.mails}"
