"""Counts of deliveries and attempts: a tally for each recorded batch, and the roll-ups that they are folded into."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .base import BaseModel
from .fields import IdField, PartialIndex

EVERY_WEBHOOK = "wh_" + "0" * 32
"""Stands for all webhooks together in the roll-ups."""

OUTCOMES = ("succeeded_at_once", "succeeded_later", "given_up")
"""Counters of deliveries by outcome."""

FAILED = "failed_"
"""Begins the names of the counters of failed attempts; the result of the attempt follows."""

RESPONSE_TIME, FIRST_ATTEMPT_DELAY = "ms_", "wait_"
"""Begin the names of the counters of a histogram: of answered attempts, and of first attempts since the delivery was
queued."""

BUCKETS_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)
"""Inclusive upper bounds of the buckets of new measurements in milliseconds; one more bucket has all above.

Each counter of a bucket is named after its bound, so measurements of other bounds are read with them.
"""

MORE, SUM = "more", "sum"
"""End the names of a histogram's counters without a bound: the last bucket, and the sum of the measurements."""


def bucket_names(histogram: str) -> tuple[str, ...]:
    """Return the counters of a histogram's buckets, the one without a bound last."""
    return (*(f"{histogram}{bound}" for bound in BUCKETS_MS), f"{histogram}{MORE}")


SINCE_SUCCESS = "given_up_since_success"
"""Beside a tally's counters: how many were given up after the last that succeeded, or at all where none did."""
MISSED_FROM = "missed_from_ms"
"""Beside a tally's counters: Unix time in milliseconds of the oldest event that was given up."""


class Tally(BaseModel):
    """What one batch of results counts: written with it, and folded into the roll-ups shortly after.

    A row of its own rather than a counter that is raised, so that nobody waits for anybody else to commit.
    """

    recorded_at = models.DateTimeField(_("recorded"))
    counts = models.TextField()
    """JSON: ``{"webhooks": {id: {counter: number}}, "given_up": [ids of deliveries]}``, ids without their prefix.

    Counters by name, those that are not 0: other versions of this app may know more of them, or fewer.
    """

    class Meta:
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.pk} ({self.recorded_at})"


class Rollup(BaseModel):
    """The counters of a webhook, or of all together, for a time span that begins at ``start``.

    Deliveries of events alone are counted: no tests, notices and handshakes. A roll-up outlives its webhook.
    """

    class Resolution(models.TextChoices):
        MINUTE = "minute", _("minute")
        HOUR = "hour", _("hour")
        DAY = "day", _("day")
        EVER = "ever", _("ever")

    webhook_id = IdField(prefix="wh", primary_key=False)
    resolution = models.CharField(_("resolution"), max_length=6, choices=Resolution.choices)
    start = models.DateTimeField(_("start"))

    counts: models.JSONField[dict[str, int], dict[str, int]] = models.JSONField(default=dict)
    """Counters by name, those that are not 0: a new one needs no column, and one that is unknown here is kept.

    The roll-up of all webhooks names each counter that one of them has for the same span.
    """

    given_up = models.BigIntegerField(default=0, db_default=0)
    """A copy of the counter: an index lists the roll-ups that have it, and the database orders by it."""

    class Meta:
        verbose_name = _("roll-up")
        verbose_name_plural = _("roll-ups")
        ordering = ("webhook_id", "resolution", "start")
        constraints = (
            models.UniqueConstraint(fields=("webhook_id", "resolution", "start"), name="webhooks_rollup_unique"),
        )
        indexes = (
            models.Index(fields=("resolution", "start"), name="webhooks_rollup_start"),
            PartialIndex(
                fields=("resolution", "start"),
                only=models.Q(given_up__gt=0),
                otherwise=("resolution", "start", "given_up"),
                name="webhooks_rollup_failed",
            ),
        )

    def __str__(self) -> str:
        return f"{self.webhook_id} ({self.resolution} {self.start})"
