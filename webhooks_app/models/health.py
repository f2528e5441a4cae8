"""Since when a webhook has been failing: one row each, moved on as tallies are folded."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import PartialIndex
from .sql import UtcNow
from .webhook import Webhook


class WebhookHealthQuerySet(models.QuerySet["WebhookHealth"]):
    def clear(self, webhook: Webhook) -> None:
        """Forget that a webhook was failing; what was tallied before and is not folded yet counts no more."""
        self.bulk_create([WebhookHealth(webhook=webhook)], ignore_conflicts=True)
        self.filter(webhook=webhook).update(failing_since=None, given_up_count=0, warned_at=None, cleared_at=UtcNow())


class WebhookHealth(models.Model):
    """What became of the last deliveries of a webhook. No emission, claim or record touches it."""

    webhook = models.OneToOneField(
        Webhook,
        verbose_name=_("webhook"),
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="health",
        db_constraint=False,  # or whoever folds would wait for whoever claims
    )
    last_success_at = models.DateTimeField(_("last success"), null=True, help_text=_("To the minute."))
    last_given_up_at = models.DateTimeField(_("last given up"), null=True)
    failing_since = models.DateTimeField(
        _("failing since"), null=True, help_text=_("When the first delivery was given up after the last success.")
    )
    given_up_count = models.PositiveIntegerField(
        _("given up"), default=0, help_text=_("Deliveries given up since the last success.")
    )
    warned_at = models.DateTimeField(_("owner warned"), null=True)
    cleared_at = models.DateTimeField(_("cleared"), null=True)

    objects = WebhookHealthQuerySet.as_manager()

    class Meta:
        verbose_name = _("health of a webhook")
        verbose_name_plural = _("health of webhooks")
        indexes = (
            PartialIndex(
                fields=("failing_since",),
                only=models.Q(failing_since__isnull=False),
                name="webhooks_health_failing",
            ),
        )

    def __str__(self) -> str:
        return f"{self.webhook_id} ({self.failing_since or 'well'})"

    @classmethod
    def of(cls, webhook: Webhook) -> WebhookHealth | None:
        """Return the health of a webhook; None before anything was delivered to it or given up."""
        try:
            return webhook.health
        except cls.DoesNotExist:
            return None
