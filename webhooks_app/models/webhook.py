"""A registration: where to send, what, and signed with which secret."""

from __future__ import annotations

from typing import Any, Self, cast

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import DEFAULT_DB_ALIAS, models, transaction
from django.dispatch import Signal
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..egress import check_endpoint
from ..exceptions import InvalidEndpointError, WebhookStateError
from ..signals import (
    deliveries_created,
    webhook_being_disabled,
    webhook_disabled,
    webhook_paused,
    webhook_resumed,
    webhook_verified,
)
from .audit import SYSTEM, Action, acting
from .fields import IdField, PartialIndex
from .limits import MAX_IN_FLIGHT, MAX_RATE, MIN_RATE, check_event_types
from .sql import take_write_lock
from .webhook_query import WebhookQuerySet
from .webhook_secret import SigningSecret

MAX_REASON_LENGTH = 500
LOCKED_FIELDS = ("status", "status_reason", "status_changed_at", "paused_at", "previous_secret_until", "deleted_at")
"""What an instance takes from its row once that is locked."""


class Webhook(SigningSecret):
    audited_fields = (
        *("owner_id", "url", "event_types", "description", "retry_notices", "max_in_flight", "rate_limit"),
        *("status", "paused_at", "previous_secret_until", "deleted_at"),
    )

    class Status(models.TextChoices):
        PENDING = "pending", _("pending")
        ACTIVE = "active", _("active")
        DISABLED = "disabled", _("disabled")
        FAILED = "failed", _("failed")

    id = IdField(prefix="wh")
    owner = models.ForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="webhooks",
        help_text=_("Empty for the platform's own webhook, which receives the events of every owner."),
    )
    url = models.CharField(_("URL"), max_length=2048)
    event_types = models.JSONField(_("event types"), default=list)
    description = models.CharField(_("description"), max_length=200, blank=True)
    retry_notices = models.BooleanField(
        _("retry notices"), default=True, help_text=_("Send webhook.retry after an attempt that will be retried.")
    )
    max_in_flight = models.PositiveSmallIntegerField(
        _("requests at a time"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_IN_FLIGHT)],
        help_text=_(
            "At most so many, over all workers. Empty for what the settings say; only staff who manage all webhooks "
            "can allow more."
        ),
    )
    rate_limit = models.FloatField(
        _("deliveries a second"),
        null=True,
        blank=True,
        validators=[MinValueValidator(MIN_RATE), MaxValueValidator(MAX_RATE)],
        help_text=_("At most so many, retries included, over all workers. Empty for no limit."),
    )
    next_slot_at = models.DateTimeField(
        _("rate limit used up until"), null=True, editable=False, help_text=_("What waits is sent from then on.")
    )
    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.PENDING, editable=False
    )
    status_reason = models.CharField(_("reason"), max_length=MAX_REASON_LENGTH, blank=True, editable=False)
    status_changed_at = models.DateTimeField(_("status since"), default=timezone.now, editable=False)
    paused_at = models.DateTimeField(
        _("paused"), null=True, editable=False, help_text=_("What is queued since then, or waited, is held.")
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(_("deleted"), null=True, editable=False)

    objects = WebhookQuerySet.as_manager()

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("owner", "-id"), name="webhooks_webhook_owner"),
            PartialIndex(fields=("paused_at",), only=models.Q(paused_at__isnull=False), name="webhooks_webhook_paused"),
        )
        permissions = (
            ("test_webhook", "Can send test events"),
            ("verify_webhook", "Can verify webhooks"),
            ("pause_webhook", "Can pause and resume webhooks"),
            ("replay_webhook", "Can replay what was sent to webhooks"),
            ("rotate_webhook_secret", "Can rotate secrets of webhooks"),
            ("redeliver_delivery", "Can redeliver deliveries"),
            ("manage_all_webhooks", "Can manage the webhooks of every account"),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.url})"

    def clean(self) -> None:
        errors: dict[str, list[Any]] = {}
        checks = {"url": self._clean_url, "event_types": self._clean_event_types, "secret": self._clean_secret}
        if self._state.adding:
            checks["__all__"] = self._clean_count
        for field, check in checks.items():
            try:
                check()
            except ValidationError as error:
                errors[field] = error.messages
        if errors:
            raise ValidationError(errors)

    def _clean_url(self) -> None:
        try:
            check_endpoint(self.url)
        except InvalidEndpointError as error:
            raise ValidationError(str(error), code=error.rule) from None

    def _clean_event_types(self) -> None:
        self.event_types = check_event_types(self.event_types, is_platforms=self.owner_id is None)

    def _clean_count(self) -> None:
        if self.owner_id is None:
            return
        limit = settings.MAX_WEBHOOKS_PER_OWNER
        if Webhook.objects.existing().filter(owner=self.owner_id).count() >= limit:
            raise ValidationError(
                _("The limit of %(limit)s for this account's webhooks is reached. Delete one first."),
                code="too_many",
                params={"limit": limit},
            )

    def lock(self) -> Self:
        """Keep everyone else from this webhook until the transaction ends, and take its state from the database.

        Returns the row as it is saved, which this instance may be about to change.
        """
        take_write_lock(self._state.db or DEFAULT_DB_ALIAS, Webhook)
        saved = cast("Self", Webhook.objects.using(self._state.db).select_for_update().get(pk=self.pk))
        for name in LOCKED_FIELDS:
            setattr(self, name, getattr(saved, name))
        return saved

    @transaction.atomic
    def activate(self) -> None:
        """Let events flow: the handshake passed."""
        with acting(SYSTEM), self.auditing(Action.WEBHOOK_VERIFIED):
            self._change_status(self.Status.ACTIVE)
        self._announce(webhook_verified)

    def await_verification(self) -> None:
        """Hold back everything until a handshake passes."""
        self._change_status(self.Status.PENDING)

    @transaction.atomic
    def fail(self, reason: str) -> None:
        """Give the handshake up and cancel what waited for it; ``reason`` is for the owner."""
        with acting(SYSTEM), self.auditing(Action.VERIFICATION_FAILED, reason=reason):
            self._change_status(self.Status.FAILED, reason)
        self.deliveries.waiting().except_tests().cancel("webhook_failed")
        self._announce(webhook_disabled, reason=reason)

    @transaction.atomic
    def disable(self, reason: str) -> None:
        """Stop sending and cancel what is waiting; ``reason`` is for the owner."""
        self.lock()
        self._require_existing()
        with self.auditing(Action.WEBHOOK_DISABLED, reason=reason):
            self._change_status(self.Status.DISABLED, reason)
            self._end_pause()
        self.deliveries.waiting().cancel("webhook_disabled")
        webhook_being_disabled.send(Webhook, webhook=self)
        self._announce(webhook_disabled, reason=reason)

    @transaction.atomic
    def pause(self) -> None:
        """Hold what waits and what is queued from now on; what is in flight ends, and nothing is lost.

        Raises WebhookStateError for a webhook that is paused already, or that no event may be queued for.
        """
        self.lock()
        self.require_sendable()
        self.require_running()
        with self.auditing(Action.WEBHOOK_PAUSED):
            self.paused_at = timezone.now()
            self.save(update_fields=["paused_at"])
        self._announce(webhook_paused)

    @transaction.atomic
    def resume(self) -> None:
        """Send what was held, what was due first first, and no more at a time than the webhook's limits allow.

        Raises WebhookStateError for a webhook that is deleted, or not paused.
        """
        self.lock()
        self._require_existing()
        if self.paused_at is None:
            raise WebhookStateError(f"Webhook {self.id} is not paused.")
        with self.auditing(Action.WEBHOOK_RESUMED):
            self._end_pause()
        self._announce(webhook_resumed)
        transaction.on_commit(lambda: deliveries_created.send_robust(self.deliveries.model), using=self._state.db)

    @transaction.atomic
    def soft_delete(self) -> None:
        """Stop sending, cancel what is waiting and hide the webhook; its history stays until retention ends."""
        self.lock()
        self._require_existing()
        with self.auditing(Action.WEBHOOK_DELETED):
            self.deleted_at = timezone.now()
            self.save(update_fields=["deleted_at"])
            self._end_pause()
        self.deliveries.waiting().cancel("webhook_deleted")

    def require_testable(self) -> None:
        """Raise WebhookStateError for a webhook that not even a test event may be sent to."""
        self._require_existing()
        if self.status == self.Status.DISABLED:
            raise WebhookStateError(f"Webhook {self.id} is disabled ({self.status_reason}). Enable it first.")

    def require_running(self) -> None:
        """Raise WebhookStateError for a webhook that is paused, so that whoever waits for an answer would wait long."""
        if self.paused_at is not None:
            raise WebhookStateError(f"Webhook {self.id} is paused. Resume it first.")

    def require_disabled(self) -> None:
        """Raise WebhookStateError for a webhook that there is no need to enable."""
        self._require_existing()
        if self.status != self.Status.DISABLED:
            raise WebhookStateError(f"Webhook {self.id} is not disabled, but {self.status}.")

    def require_sendable(self) -> None:
        """Raise WebhookStateError for a webhook that no event may be queued for."""
        self.require_testable()
        if self.status == self.Status.FAILED:
            raise WebhookStateError(f"Webhook {self.id} failed its verification. Verify it again first.")

    def _require_existing(self) -> None:
        if self.deleted_at is not None:
            raise WebhookStateError(f"Webhook {self.id} is deleted.")

    def _end_pause(self) -> None:
        """End a pause, also where nothing is left to be held: a webhook that is stopped is not paused."""
        if self.paused_at is not None:
            self.paused_at = None
            self.save(update_fields=["paused_at"])

    def _announce(self, signal: Signal, **arguments: Any) -> None:
        transaction.on_commit(
            lambda: signal.send_robust(Webhook, webhook_id=self.id, **arguments), using=self._state.db
        )

    def _change_status(self, status: Status, reason: str = "") -> None:
        self.status = status
        self.status_reason = reason[:MAX_REASON_LENGTH]
        self.status_changed_at = timezone.now()
        self.save(update_fields=["status", "status_reason", "status_changed_at"])
