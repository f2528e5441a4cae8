"""The queue: a narrow row for each pending delivery, and a lane for each webhook under which workers claim.

The wide row of a delivery is for people. What a worker reads and writes to claim is here, so that a claim changes no
index: it sets columns that none covers, in a table whose fill factor leaves room for the new version on the same page.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..database.sql import UtcNow
from ..retry import MAX_LENGTH
from .base import BaseModel, BaseQuerySet
from .fields import LooseCharField
from .webhook import Webhook

if TYPE_CHECKING:
    from .delivery import Delivery

ENTRIES_AT_A_TIME = 500

FAST_SECONDS = 1.0
"""A request that is open for less is fast."""


class QueueEntryQuerySet(BaseQuerySet["QueueEntry"]):
    def unclaimed(self) -> Self:
        return self.filter(claimed_at=None)

    def claimed(self) -> Self:
        return self.filter(claimed_at__isnull=False)

    def add(self, deliveries: Sequence[Delivery], due_at: datetime | None = None) -> None:
        """Queue new deliveries, due at this time or, by default, now.

        The default is the database's time, so that a wrong local clock cannot delay them.
        """
        entries = [QueueEntry.of(delivery, due_at or UtcNow()) for delivery in deliveries]
        self.bulk_create(entries, batch_size=ENTRIES_AT_A_TIME)

    def add_in_order(self, deliveries: Sequence[Delivery], due_at: datetime) -> None:
        """Queue new deliveries, each due a microsecond after the previous one."""
        moments = (due_at + timedelta(microseconds=place) for place in itertools.count())
        entries = [QueueEntry.of(delivery, moment) for delivery, moment in zip(deliveries, moments, strict=False)]
        self.bulk_create(entries, batch_size=ENTRIES_AT_A_TIME)

    def remove(self) -> int:
        """Delete the rows without looking for related objects, of which there are none; return how many."""
        return self._raw_delete(self.db)


class QueueEntry(BaseModel):
    """A pending delivery for workers. The row exists exactly as long as the delivery is pending."""

    delivery = models.OneToOneField(
        "webhooks_app.Delivery",
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="queue_entry",
        db_constraint=False,  # inserted and deleted with its delivery
    )
    webhook = models.ForeignKey(
        Webhook, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )
    event = models.ForeignKey(
        "webhooks_app.Event",
        null=True,
        on_delete=models.DO_NOTHING,  # deleted with its delivery
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    kind = models.CharField(max_length=12)
    attempt = models.PositiveSmallIntegerField(default=0)
    """The number of the last started attempt, committed before its request is sent."""
    max_attempts = models.PositiveSmallIntegerField()
    retry_policy = LooseCharField(max_length=MAX_LENGTH, blank=True)
    due_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True)
    worker = models.BigIntegerField(null=True)
    """The number of the worker that claimed it, see ``WorkerSession.number``."""

    objects = QueueEntryQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("queue entry")
        verbose_name_plural = _("queue entries")
        indexes = (models.Index(fields=("webhook", "due_at"), name="webhooks_queue_due"),)

    def __str__(self) -> str:
        return str(self.delivery_id)

    @classmethod
    def of(cls, delivery: Delivery, due_at: Any) -> Self:
        return cls(
            delivery_id=delivery.pk,
            webhook_id=delivery.webhook_id,
            event_id=delivery.event_id,
            kind=delivery.kind,
            max_attempts=delivery.max_attempts,
            retry_policy=delivery.retry_policy,
            due_at=due_at,
            expires_at=delivery.expires_at,
        )


class QueueLaneQuerySet(BaseQuerySet["QueueLane"]):
    def ensure(self, webhook_ids: Iterable[str]) -> None:
        """Insert the lanes of these webhooks that are missing."""
        self.bulk_create([QueueLane(webhook_id=pk) for pk in webhook_ids], ignore_conflicts=True)

    def forget_pace(self, webhook: Webhook) -> None:
        """Forget how fast a webhook is, as its URL has changed."""
        self.filter(pk=webhook.pk).update(is_fast=None)


class QueueLane(BaseModel):
    """The lock under which workers claim for a webhook, with the facts that they share.

    A lane is inserted when a worker first finds something due for the webhook.
    """

    webhook = models.OneToOneField(
        Webhook, primary_key=True, on_delete=models.CASCADE, related_name="lane", db_constraint=False
    )
    in_flight = models.JSONField(default=dict)
    """By worker: the number of its claims, and the Unix time in seconds at which the last of their leases ends."""
    unsigned_until = models.DateTimeField(null=True)
    """Until when a worker that cannot read the webhook's keys leaves its deliveries to others."""
    next_slot_at = models.DateTimeField(
        _("rate limit used up until"), null=True, help_text=_("What waits is sent from then on.")
    )
    is_fast = models.BooleanField(null=True)
    """Whether the last request was over within ``FAST_SECONDS``; None before the first result."""

    objects = QueueLaneQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("queue lane")
        verbose_name_plural = _("queue lanes")

    def __str__(self) -> str:
        return str(self.webhook_id)

    def claims_of_others(self, worker: int, now: datetime) -> int:
        """Return the number of deliveries that other workers may have in flight."""
        return sum(number for number, until in self.held_by_others(worker, now).values())

    def held_by_others(self, worker: int, now: datetime) -> dict[str, tuple[int, float]]:
        """Return the entries of other workers whose leases have not ended."""
        moment = now.timestamp()
        return {
            name: (number, until)
            for name, (number, until) in self.in_flight.items()
            if name != str(worker) and until > moment
        }
