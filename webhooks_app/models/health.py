"""The health of webhooks and their failing periods, updated when tallies are folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..database.sql import UtcNow
from ..protocol.json_data import format_time
from .base import BaseModel, BaseQuerySet
from .fields import PartialIndex
from .webhook import Webhook

MAX_PAST_FAILURES = 10
MAX_CAUSES = 10
"""Causes of failed requests that are counted apart."""
MERGED_WITHIN = timedelta(minutes=5)
"""Failing periods with a shorter time between them are merged."""


CLEARED = (
    *("refused_since", "refused_at", "refused_count", "refused", "failing_since", "given_up_since", "given_up_count"),
    *("missed_from", "announced_at", "warned_at"),
)
"""The columns about the time since the last success."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """The numbers by which receivers are judged. ``WEBHOOKS_HEALTH`` replaces some of them."""

    failing_requests: float = 3
    """A receiver fails if this many requests failed in a row, and the first of them ``failing_seconds`` ago."""
    failing_seconds: float = 10
    many_requests: float = 100
    many_failed: float = 0.01
    """It partly fails if this share of ``many_requests`` or more failed within the last hour; or:"""
    some_requests: float = 10
    some_failed: float = 0.1
    """this share of ``some_requests`` or more."""
    slow_requests: float = 10
    slow_seconds: float = 5
    """It is slow if the 95th percentile of the response times of ``slow_requests`` or more is longer. The specification
    recommends to answer within 5 s."""
    delayed_seconds: float = 60
    """Events are delayed if they have been due for longer."""

    @classmethod
    def configured(cls) -> Self:
        return cls(**settings.HEALTH)

    @property
    def failing_for(self) -> timedelta:
        return timedelta(seconds=self.failing_seconds)

    def are_many_failed(self, failed: int, requests: int) -> bool:
        """Return True if so many of these requests failed that a receiver partly fails."""
        limits = ((self.many_requests, self.many_failed), (self.some_requests, self.some_failed))
        return any(requests >= least and failed >= share * requests for least, share in limits)


class Trouble(models.TextChoices):
    """What the results of the last hour and day show about a receiver that does not fail."""

    PARTLY = "partly", _("partly failing")
    SLOW = "slow", _("slow")


@dataclass(frozen=True, kw_only=True, slots=True)
class FailingPeriod:
    """A period in which a webhook was stopped, or events were given up and none was delivered."""

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
            health.end_period(health.cleared_at, stopped_at=stopped_since(webhook) if webhook.is_stopped else None)
            health.save(update_fields=["past_failures", "trouble", *CLEARED])

    def failing(self, now: datetime) -> Self:
        """Return the rows of webhooks whose receiver fails, whatever their state is."""
        return self.filter(is_failing(now))


class WebhookHealth(BaseModel):
    """The results of a webhook's recent deliveries.

    Emission and claiming never access this row, and recording only after the handshake of a new URL.
    """

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
    refused_since = models.DateTimeField(
        _("requests failed since"), null=True, help_text=_("When the first request failed after the last success.")
    )
    refused_at = models.DateTimeField(_("last failed request"), null=True)
    refused_count = models.PositiveIntegerField(
        _("failed requests"), default=0, help_text=_("Requests that failed since the last success.")
    )
    refused: models.JSONField[dict[str, int], dict[str, int]] = models.JSONField(_("causes"), default=dict)
    """The number of failed requests since the last success, by status or else by result; the commonest causes only."""
    failing_since = models.DateTimeField(
        _("failing since"),
        null=True,
        help_text=_(
            "When the first request failed, if several did since the last success, or a delivery was given up."
        ),
    )
    given_up_since = models.DateTimeField(
        _("given up since"), null=True, help_text=_("When the first delivery was given up after the last success.")
    )
    given_up_count = models.PositiveIntegerField(
        _("given up"), default=0, help_text=_("Deliveries given up since the last success.")
    )
    missed_from = models.DateTimeField(
        _("missed from"),
        null=True,
        help_text=_("Creation time of the oldest event given up or cancelled since the last success."),
    )
    trouble = models.CharField(max_length=8, choices=Trouble, blank=True, default="", editable=False)
    """What the recent results show, summed up by a job; "" if nothing."""
    past_failures = models.JSONField(_("past failing periods"), default=list)
    """A list of ``FailingPeriod`` as JSON, in order."""
    announced_at = models.DateTimeField(
        _("announced"), null=True, help_text=_("When the failure was announced to the account.")
    )
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
            PartialIndex(
                fields=("given_up_since",),
                only=models.Q(given_up_since__isnull=False),
                name="webhooks_health_given_up",
            ),
            PartialIndex(fields=("trouble",), only=~models.Q(trouble=""), name="webhooks_health_trouble"),
            PartialIndex(
                fields=("failing_since",),
                only=models.Q(failing_since__isnull=False, announced_at=None),
                otherwise=("announced_at", "failing_since"),
                name="webhooks_health_unannounced",
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

    @property
    def cause(self) -> str:
        """The commonest cause of the failed requests: a status as text, or a result; "" without a failed request."""
        return max(self.refused, key=lambda cause: self.refused[cause], default="")

    def is_failing(self, now: datetime) -> bool:
        """Return True if the receiver fails, by the same rule as ``is_failing``."""
        if self.given_up_since is not None:
            return True
        return self.failing_since is not None and self.failing_since <= now - Thresholds.configured().failing_for

    def note_refused(self, at: datetime, refused: Mapping[str, int]) -> None:
        """Count failed requests by their cause."""
        self.refused_since = self.refused_since or at
        self.refused_at = at
        self.refused_count += sum(refused.values())
        causes = Counter(self.refused)
        causes.update(refused)
        self.refused = dict(causes.most_common(MAX_CAUSES))
        if self.refused_count >= Thresholds.configured().failing_requests:
            self.failing_since = self.failing_since or self.refused_since

    def note_given_up(self, at: datetime, number: int, missed_from: datetime | None) -> None:
        """Count deliveries that were given up. Start a failing period if there is none."""
        self.given_up_since = self.given_up_since or at
        self.failing_since = self.failing_since or self.refused_since or at
        self.given_up_count += number
        self.missed_from = _earliest(self.missed_from, missed_from)
        self.last_given_up_at = at

    def note_cancelled(self, missed_from: datetime) -> None:
        """Record the oldest event cancelled by a stop of the webhook, which starts no failing period by itself."""
        self.missed_from = _earliest(self.missed_from, missed_from)

    def end_period(self, at: datetime, *, stopped_at: datetime | None = None) -> None:
        """End the failing period. It is stored if events were lost, or if the webhook was stopped at this time."""
        has_lost = self.given_up_since is not None or self.missed_from is not None
        if has_lost or stopped_at is not None:
            began_at = _earliest(self.failing_since, self.given_up_since, stopped_at) or at
            self.keep(
                FailingPeriod(
                    began_at=began_at, ended_at=at, given_up=self.given_up_count, missed_from=self.missed_from
                )
            )
        if self.given_up_count:
            self.trouble = Trouble.PARTLY
        self.refused_since = self.refused_at = self.failing_since = self.given_up_since = None
        self.announced_at = self.warned_at = self.missed_from = None
        self.refused, self.refused_count, self.given_up_count = {}, 0, 0

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
        """Return the failing periods with lost events, in order. The last one may not have ended."""
        past = [FailingPeriod.from_json(kept) for kept in self.past_failures]
        if self.given_up_since is None:
            return past
        began_at = _earliest(self.failing_since, self.given_up_since)
        assert began_at is not None
        return [*past, FailingPeriod(began_at=began_at, given_up=self.given_up_count, missed_from=self.missed_from)]


def is_failing(now: datetime) -> models.Q:
    """Return the condition for rows of ``WebhookHealth`` of receivers that fail.

    Several requests in a row failed, the first of them some time ago, or a delivery was given up, and none has
    succeeded since.
    """
    long_enough = models.Q(failing_since__lte=now - Thresholds.configured().failing_for)
    return models.Q(failing_since__isnull=False) & (long_enough | models.Q(given_up_since__isnull=False))


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
