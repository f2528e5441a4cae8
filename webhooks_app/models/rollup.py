"""Counts of deliveries and attempts: a tally per recorded batch, and the roll-ups that aggregate tallies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..database.sql import UtcNow
from ..protocol.ids import milliseconds_of
from .base import BaseModel, BaseQuerySet
from .fields import IdField, PartialIndex

EVERY_WEBHOOK = "wh_" + "0" * 32
"""The identifier of the roll-ups over all webhooks."""

_NO_TIME, _DIGITS = "wh_" + "0" * 12, 20
FIRST_WEBHOOK = f"{_NO_TIME[:-1]}1{'0' * _DIGITS}"
"""All identifiers of webhooks are greater, because they begin with a time. Lower ones are of sums over webhooks."""


def id_of_account(owner_id: Any) -> str:
    """Return the identifier of the roll-ups over the webhooks of an account."""
    digest = hashlib.blake2b(str(owner_id).encode(), digest_size=_DIGITS // 2)
    return _NO_TIME + digest.hexdigest()


OUTCOMES = ("succeeded_at_once", "succeeded_later", "given_up")
"""Counters of deliveries by outcome."""

FAILED = "failed_"
"""Prefix of the counters of failed attempts. The result of the attempt follows."""

RESPONSE_TIME, FIRST_ATTEMPT_DELAY = "ms_", "wait_"
"""Prefixes of the counters of histograms: the duration of answered attempts, and the time from queueing to the first
attempt."""

BUCKETS_MS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)
"""Inclusive upper bounds of the buckets in milliseconds. One more bucket contains larger values.

Each counter is named after its bound, so that measurements with other bounds remain readable.
"""

MORE, SUM = "more", "sum"
"""Suffixes of a histogram's counters without a bound: the last bucket, and the sum of the measurements."""


def bucket_names(histogram: str) -> tuple[str, ...]:
    """Return the counters of a histogram's buckets. The one without a bound is last."""
    return (*(f"{histogram}{bound}" for bound in BUCKETS_MS), f"{histogram}{MORE}")


SINCE_SUCCESS = "given_up_since_success"
"""A counter in tallies: deliveries given up after the last success in the batch, or all of them without a success."""
MISSED_FROM = "missed_from_ms"
"""A counter in tallies: Unix time in milliseconds of the oldest event that was given up or cancelled."""
CODE = "code_"
"""Prefix of counters in tallies: attempts that failed because of the status of the answer, which follows."""
REFUSED = "refused_"
"""Prefix of counters in tallies: attempts that failed after the last success in the batch, or all without a success.
The status of the answer follows, or the result of an attempt without an expected answer."""


class TallyQuerySet(BaseQuerySet["Tally"]):
    def note_cancelled(self, deliveries: Iterable[tuple[str, str]]) -> None:
        """Record the oldest event per webhook of cancelled deliveries, given as pairs of a webhook and an event."""
        webhooks: dict[str, dict[str, int]] = {}
        for webhook_id, event_id in deliveries:
            emitted_ms = milliseconds_of(event_id)
            counters = webhooks.setdefault(webhook_id[-32:], {MISSED_FROM: emitted_ms})
            counters[MISSED_FROM] = min(counters[MISSED_FROM], emitted_ms)
        if webhooks:
            self.create(recorded_at=UtcNow(), counts=json.dumps({"webhooks": webhooks, "given_up": []}))


class Tally(BaseModel):
    """The counts of one batch of results, written with it and later folded into the roll-ups.

    Each batch inserts a row instead of incrementing counters, so that concurrent batches do not wait for each other.
    """

    recorded_at = models.DateTimeField(_("recorded"))
    counts = models.TextField()
    """JSON: ``{"webhooks": {id: {counter: number}}, "given_up": [ids of deliveries]}``, ids without their prefix.

    Counters of 0 are omitted. Other versions of the app may know more or fewer counters.
    """

    objects = TallyQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")
        default_permissions = ()
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.pk} ({self.recorded_at})"


class Rollup(BaseModel):
    """The counters of one webhook, of an account's or of all, for a time span that begins at ``start``.

    Only deliveries of events count, not tests, notices or handshakes. A roll-up outlives its webhook.
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
    """Counters by name, except those of 0. A new counter needs no column, and unknown ones are preserved.

    The roll-up of all webhooks contains each counter of any webhook in the same span.
    """

    given_up = models.BigIntegerField(default=0, db_default=0)
    """A copy of the counter, for an index and for ordering; 0 in sums over webhooks."""

    class Meta:
        verbose_name = _("roll-up")
        verbose_name_plural = _("roll-ups")
        default_permissions = ()
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
