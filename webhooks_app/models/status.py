"""The status of a webhook, and the operations and kinds of deliveries that it permits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from ..database.clock import now
from ..exceptions import AlreadyInStateError, WebhookStateError
from ..reasons import ReasonText, clipped
from .base import BaseModel
from .fields import ReasonField

MAX_REASON_LENGTH = 500


class DeliveryKind(models.TextChoices):
    """The kinds of deliveries."""

    EVENT = "event", _("event")
    TEST = "test", _("test")
    RETRY_NOTICE = "retry_notice", _("retry notice")
    VERIFICATION = "verification", _("verification")


PROBES = (DeliveryKind.VERIFICATION.value, DeliveryKind.TEST.value)
"""Kinds that are sent to an unverified URL: the handshake itself, and manual tests."""

REQUESTED = (DeliveryKind.EVENT.value, DeliveryKind.TEST.value)
"""Kinds that a person or a program asked for. The app sends the others by itself."""


class StatusRules(BaseModel):
    """A mixin for webhooks with the status and the rules about it."""

    class Status(models.TextChoices):
        PENDING = "pending", _("pending")
        # With a context, because Django itself translates the word with a capital letter.
        ACTIVE = "active", pgettext_lazy("status of a webhook", "active")
        DISABLED = "disabled", _("disabled")
        FAILED = "failed", _("failed")

    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.PENDING, editable=False
    )
    status_reason = ReasonField(_("reason"), max_length=MAX_REASON_LENGTH, blank=True, editable=False)
    status_changed_at = models.DateTimeField(_("status since"), default=now, editable=False)
    paused_at = models.DateTimeField(
        _("paused"), null=True, editable=False, help_text=_("Pending deliveries are held from this time.")
    )
    deleted_at = models.DateTimeField(_("deleted"), null=True, editable=False)

    if TYPE_CHECKING:
        id: str
        url: str
        pending_url: str
        pending_headers: list[list[str]]

    class Meta:
        abstract = True

    @property
    def is_deleted(self) -> bool:
        """Whether only the history of the webhook remains."""
        return self.deleted_at is not None

    @property
    def is_changing_url(self) -> bool:
        """Whether handshakes go to the pending URL, and everything else to the verified one."""
        return is_changing_url(self)

    @property
    def awaited_url(self) -> str:
        """The URL whose verification decides about the webhook, or ""."""
        if self.is_changing_url:
            return self.pending_url
        return self.url if self.status == self.Status.PENDING else ""

    @property
    def is_stopped(self) -> bool:
        """Whether events are not queued until the next verification."""
        return self.status in (self.Status.DISABLED, self.Status.FAILED)

    # The states that permit an operation. All but the last also raise WebhookStateError for a deleted webhook.

    def require_testable(self) -> None:
        """Raise WebhookStateError for a disabled or paused webhook, to which a test would not be sent soon."""
        self._require_not_disabled()
        self._require_not_paused()

    def require_verifiable(self) -> None:
        """Raise WebhookStateError for a disabled or paused webhook, AlreadyInStateError for a verified one.

        Another verification would hold the events of a verified webhook. That of a pending URL holds none, and is sent
        during a pause too.
        """
        self._require_not_disabled()
        if self.is_changing_url:
            return
        if self.status == self.Status.ACTIVE:
            raise AlreadyInStateError(ReasonText("webhook_already_verified", id=self.id))
        self._require_not_paused()

    def require_disabled(self) -> None:
        """Raise WebhookStateError after a failed verification, AlreadyInStateError for an enabled webhook."""
        self.require_existing()
        if self.status == self.Status.FAILED:
            raise WebhookStateError(ReasonText("webhook_failed_not_disabled", id=self.id))
        if self.status != self.Status.DISABLED:
            raise AlreadyInStateError(ReasonText("webhook_not_disabled", id=self.id))

    def require_enabled(self) -> None:
        """Raise AlreadyInStateError for a disabled webhook, so that its reason does not change."""
        self.require_existing()
        if self.status == self.Status.DISABLED:
            raise AlreadyInStateError(ReasonText("webhook_already_disabled", id=self.id))

    def require_sendable(self) -> None:
        """Raise WebhookStateError if events cannot be queued for the webhook."""
        self._require_not_disabled()
        if self.status == self.Status.FAILED:
            raise WebhookStateError(ReasonText("webhook_failed", id=self.id))

    def require_unpaused(self) -> None:
        """Raise WebhookStateError if events cannot be queued for the webhook, AlreadyInStateError if it is paused."""
        self.require_existing()
        if self.paused_at is not None:
            raise AlreadyInStateError(ReasonText("webhook_already_paused", id=self.id))
        self.require_sendable()

    def require_paused(self) -> None:
        """Raise AlreadyInStateError for a webhook that is not paused."""
        self.require_existing()
        if self.paused_at is None:
            raise AlreadyInStateError(ReasonText("webhook_not_paused", id=self.id))

    def require_existing(self) -> None:
        """Raise WebhookStateError for a deleted webhook."""
        if self.is_deleted:
            raise WebhookStateError(ReasonText("webhook_deleted", id=self.id))

    def _require_not_disabled(self) -> None:
        self.require_existing()
        if self.status == self.Status.DISABLED:
            raise WebhookStateError(ReasonText("webhook_disabled", id=self.id, reason=self.status_reason))

    def _require_not_paused(self) -> None:
        if self.paused_at is not None:
            raise WebhookStateError(ReasonText("webhook_paused", id=self.id))

    def _change_status(self, status: Status, reason: str = "", *also: str) -> None:
        """Change the status. This also ends a change of the URL, which only an active webhook has."""
        self.status = status
        self.pending_url, self.pending_headers = "", []
        self.status_reason = clipped(reason, MAX_REASON_LENGTH)
        self.status_changed_at = now()
        fields = ("status", "status_reason", "status_changed_at", "pending_url", "pending_headers", *also)
        self.save(update_fields=fields)


class WebhookState(Protocol):
    """The state of a webhook: its row, or the values loaded by a worker."""

    @property
    def pending_url(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def paused_at(self) -> datetime | None: ...
    @property
    def deleted_at(self) -> datetime | None: ...


def is_changing_url(webhook: WebhookState) -> bool:
    """Return True if the webhook has a new URL that awaits its verification. See ``StatusRules.is_changing_url``."""
    return webhook.pending_url != "" and webhook.status == StatusRules.Status.ACTIVE


def stop_reason(kind: str, webhook: WebhookState) -> str:
    """Return the reason for cancelling pending deliveries of this kind, or "" if they are not cancelled."""
    if webhook.deleted_at is not None:
        return "webhook_deleted"
    if webhook.status == StatusRules.Status.DISABLED:
        return "webhook_disabled"
    if webhook.status == StatusRules.Status.FAILED and kind != DeliveryKind.TEST:
        return "webhook_failed"
    return ""
