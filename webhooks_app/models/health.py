"""The health of webhooks and their failing periods, updated when tallies are folded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from ..database.sql import UtcNow
from ..protocol.json_data import format_time
from .base import BaseModel, BaseQuerySet
from .fields import PartialIndex
from .webhook import Webhook

MAX_PAST_FAILURES = 10
MERGED_WITHIN = timedelta(minutes=5)
"""Failing periods with a shorter time between them are merged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailingPeriod:
    """A period in which a webhook was stopped, or every delivery to it was given up."""

    began_at: datetime
    ended_at: datetime | None = None
    """None for a period that has not ended."""
    given_up: int = 0
    missed_from: datetime | None = None
    """The creation time of the oldest event that was given up or cancelled, or None without one."""

    def joined(self, other: FailingPeriod) -> FailingPeriod:
        """Return the merged period of this one and a later one."""
        return FailingPeriod(
            began_at=min(self.began_at, other.began_at),
            ended_at=other.ended_at,
            given_up=self.given_up + other.given_up,
            missed_from=_earliest(self.missed_from, other.missed_from),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "since": format_time(self.began_at),
            "until": format_time(self.ended_at) if self.ended_at else None,
            "given_up": self.given_up,
            "missed_from": format_time(self.missed_from) if self.missed_from else None,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        return cls(
            began_at=datetime.fromisoformat(kept["since"]),
            ended_at=datetime.fromisoformat(kept["until"]) if kept["until"] else None,
            given_up=kept["given_up"],
            missed_from=datetime.fromisoformat(kept["missed_from"]) if kept.get("missed_from") else None,
        )


class Standing(models.TextChoices):
    """The state of a webhook and the results of its deliveries, in one word."""

    HEALTHY = "healthy", _("Healthy")
    UNUSED = "unused", _("No deliveries yet")
    FAILING = "failing", _("Failing")
    PAUSED = "paused", _("Paused")
    UNVERIFIED = "unverified", _("Not verified yet")
    REFUSED = "refused", _("Verification failed")
    DISABLED = "disabled", _("Disabled")

    @property
    def tone(self) -> str:
        """``good``, ``late`` or ``bad`` for the colour of the word, or ``open`` for none."""
        tones = {self.HEALTHY: "good", self.UNUSED: "open", self.PAUSED: "late", self.UNVERIFIED: "late"}
        return tones.get(self, "bad")

    @property
    def began_with_status(self) -> bool:
        """True if it has lasted since the last change of the status."""
        return self not in (self.FAILING, self.PAUSED)

    @classmethod
    def of(cls, webhook: Webhook) -> Standing:
        stopped = {
            webhook.Status.DISABLED: cls.DISABLED,
            webhook.Status.FAILED: cls.REFUSED,
            webhook.Status.PENDING: cls.UNVERIFIED,
        }
        if webhook.status in stopped:
            return stopped[webhook.Status(webhook.status)]
        if webhook.paused_at is not None:
            return cls.PAUSED
        health = WebhookHealth.of(webhook)
        if health is not None and health.failing_since is not None:
            return cls.FAILING
        is_unused = health is None or (health.last_success_at is None and health.last_given_up_at is None)
        return cls.UNUSED if is_unused else cls.HEALTHY

    @classmethod
    def conditions(cls) -> dict[Standing, models.Q]:
        """Return the same rule as conditions for rows of Webhook, each in a query of its own, the gravest first."""
        status = Webhook.Status
        running = models.Q(status=status.ACTIVE, paused_at=None)
        well = running & models.Q(health__failing_since=None)
        unused = models.Q(health__last_success_at=None, health__last_given_up_at=None)
        return {
            cls.FAILING: running & models.Q(health__failing_since__isnull=False),
            cls.REFUSED: models.Q(status=status.FAILED),
            cls.DISABLED: models.Q(status=status.DISABLED),
            cls.PAUSED: models.Q(status=status.ACTIVE, paused_at__isnull=False),
            cls.UNVERIFIED: models.Q(status=status.PENDING),
            cls.UNUSED: well & unused,
            cls.HEALTHY: well & ~unused,
        }


def stopped_since(webhook: Webhook) -> datetime:
    """Return the time from which a stopped webhook missed events: its disabling, or the start of its verification.

    The end of a failed verification would reveal how long an unreachable URL took.
    """
    if webhook.status != webhook.Status.FAILED:
        return webhook.status_changed_at
    handshakes = webhook.deliveries.handshakes()
    started_at = handshakes.order_by("-pk").values_list("created_at", flat=True).first()
    return started_at or webhook.created_at


class WebhookHealthQuerySet(BaseQuerySet["WebhookHealth"]):
    def clear(self, webhook: Webhook) -> None:
        """End the webhook's failing period. Only later deliveries then affect its health.

        Must be called before the change of status, because the time as a stopped webhook belongs to the period.
        """
        with transaction.atomic(using=self.db, savepoint=False):
            self.bulk_create([WebhookHealth(webhook=webhook)], ignore_conflicts=True)
            self.filter(webhook=webhook).update(cleared_at=UtcNow())
            health = self.select_for_update().get(webhook=webhook)
            assert health.cleared_at is not None
            if webhook.is_stopped:
                stopped_at = stopped_since(webhook)
                health.failing_since = min(health.failing_since or stopped_at, stopped_at)
            health.end_period(health.cleared_at)
            health.save(update_fields=["failing_since", "given_up_count", "missed_from", "warned_at", "past_failures"])


class WebhookHealth(BaseModel):
    """The results of a webhook's recent deliveries. Emission, claiming and recording never access this row."""

    webhook = models.OneToOneField(
        Webhook,
        verbose_name=_("webhook"),
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="health",
        db_constraint=False,  # a fold must not wait for a claim
    )
    last_success_at = models.DateTimeField(_("last success"), null=True, help_text=_("To the minute."))
    last_given_up_at = models.DateTimeField(_("last given up"), null=True)
    failing_since = models.DateTimeField(
        _("failing since"), null=True, help_text=_("When the first delivery was given up after the last success.")
    )
    given_up_count = models.PositiveIntegerField(
        _("given up"), default=0, help_text=_("Deliveries given up since the last success.")
    )
    missed_from = models.DateTimeField(
        _("missed from"),
        null=True,
        help_text=_("Creation time of the oldest event given up or cancelled since the last success."),
    )
    past_failures = models.JSONField(_("past failing periods"), default=list)
    """A list of ``FailingPeriod`` as JSON, in order."""
    warned_at = models.DateTimeField(_("account warned"), null=True)
    cleared_at = models.DateTimeField(_("cleared"), null=True)
    recent = models.JSONField(
        _("recent results"),
        default=dict,
        help_text=_("Results of the last hour, 24 hours and 7 days, and the number of queued deliveries."),
    )

    objects = WebhookHealthQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("health of a webhook")
        verbose_name_plural = _("health of webhooks")
        default_permissions = ()
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
        """Return the health of a webhook, or None before its first final delivery."""
        try:
            return webhook.health
        except cls.DoesNotExist:
            return None

    def note_given_up(self, at: datetime, number: int, missed_from: datetime | None) -> None:
        """Count deliveries that were given up. Start a failing period if there is none."""
        self.failing_since = self.failing_since or at
        self.given_up_count += number
        self.missed_from = _earliest(self.missed_from, missed_from)
        self.last_given_up_at = at

    def note_cancelled(self, missed_from: datetime) -> None:
        """Record the oldest event cancelled by a stop of the webhook, which starts no failing period by itself."""
        self.missed_from = _earliest(self.missed_from, missed_from)

    def end_period(self, at: datetime) -> None:
        """End the failing period, if there is one, and store it."""
        if self.failing_since is not None or self.missed_from is not None:
            self.keep(
                FailingPeriod(
                    began_at=self.failing_since or at,
                    ended_at=at,
                    given_up=self.given_up_count,
                    missed_from=self.missed_from,
                )
            )
        self.failing_since = self.warned_at = self.missed_from = None
        self.given_up_count = 0

    def keep(self, period: FailingPeriod) -> None:
        """Add a period to the past ones."""
        past = [FailingPeriod.from_json(kept) for kept in self.past_failures]
        last = past[-1] if past else None
        if last and last.ended_at and period.began_at - last.ended_at < MERGED_WITHIN:
            past[-1] = last.joined(period)
        else:
            past.append(period)
        if len(past) > MAX_PAST_FAILURES:
            past[:2] = [past[0].joined(past[1])]
        self.past_failures = [each.as_json() for each in past]

    def failures(self) -> list[FailingPeriod]:
        """Return the stored failing periods in order. The last one may not have ended."""
        past = [FailingPeriod.from_json(kept) for kept in self.past_failures]
        if self.failing_since is None:
            return past
        now = FailingPeriod(began_at=self.failing_since, given_up=self.given_up_count, missed_from=self.missed_from)
        return [*past, now]


class RecentResults(BaseModel):
    """The recent results of some webhooks in one row, from which a page sorts thousands without reading each."""

    place = models.PositiveIntegerField(primary_key=True)
    results: models.JSONField[dict[str, Any], dict[str, Any]] = models.JSONField(default=dict)
    """``ids`` of the webhooks in order, and each part of ``WebhookHealth.recent`` by webhook."""

    class Meta:
        verbose_name = _("recent results")
        verbose_name_plural = _("recent results")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.place)


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
