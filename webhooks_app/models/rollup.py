"""What became of deliveries, counted: a tally for each recorded batch, and the roll-ups that they are folded into."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .delivery import DeliveryAttempt
from .fields import IdField, PartialIndex

EVERY_WEBHOOK = "wh_" + "0" * 32
"""Stands for all webhooks together in the roll-ups."""

BUCKETS_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)
"""The upper bounds of the histograms' buckets in milliseconds, each within its bucket; one more is for all above."""

FAILURES = tuple(result.value for result in DeliveryAttempt.Result if result is not DeliveryAttempt.Result.SUCCEEDED)


def histogram(name: str) -> tuple[str, ...]:
    """Return the counters of a histogram: its buckets, then the sum of what was measured."""
    return (*(f"{name}_{bound}" for bound in BUCKETS_MS), f"{name}_more", f"{name}_sum")


OUTCOMES = ("succeeded_at_once", "succeeded_later", "given_up")
COUNTERS = (*OUTCOMES, *(f"failed_{failure}" for failure in FAILURES), *histogram("ms"), *histogram("wait"))
"""What is counted: deliveries by outcome; attempts by how they failed, and by how long the answer took, where there was
one; deliveries by how long they waited for their first attempt."""

SINCE_SUCCESS = "given_up_since_success"
"""Beside a tally's counters: how many were given up after the last that succeeded, or at all where none did."""


def _counter() -> models.BigIntegerField[int, int]:
    return models.BigIntegerField(default=0, db_default=0)


class Tally(models.Model):
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


class Rollup(models.Model):
    """The counters of a webhook, or of all together, from ``start`` for as long as ``resolution`` says.

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

    succeeded_at_once = _counter()
    succeeded_later = _counter()
    given_up = _counter()

    failed_http_status = _counter()
    failed_timeout = _counter()
    failed_connection_error = _counter()
    failed_dns_error = _counter()
    failed_tls_error = _counter()
    failed_invalid_response = _counter()
    failed_address_refused = _counter()
    failed_wrong_challenge = _counter()
    failed_worker_lost = _counter()
    failed_internal_error = _counter()

    ms_10 = _counter()
    ms_25 = _counter()
    ms_50 = _counter()
    ms_100 = _counter()
    ms_250 = _counter()
    ms_500 = _counter()
    ms_1000 = _counter()
    ms_2500 = _counter()
    ms_5000 = _counter()
    ms_10000 = _counter()
    ms_30000 = _counter()
    ms_more = _counter()
    ms_sum = _counter()

    wait_10 = _counter()
    wait_25 = _counter()
    wait_50 = _counter()
    wait_100 = _counter()
    wait_250 = _counter()
    wait_500 = _counter()
    wait_1000 = _counter()
    wait_2500 = _counter()
    wait_5000 = _counter()
    wait_10000 = _counter()
    wait_30000 = _counter()
    wait_more = _counter()
    wait_sum = _counter()

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
