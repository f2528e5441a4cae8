"""Lanes of the queue: a lock for the claims of each webhook, with the state shared by workers.

All transactions lock in one order: webhooks, lanes, queue entries, deliveries; each kind in the order of the primary
keys. An unclaimed entry is changed only with its lane locked. The result of a claim is recorded without the lane.
Therefore other transactions lock claimed entries first, in order, and claims skip locked ones instead of waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import models
from django.utils.translation import gettext_lazy as _

from .base import BaseModel, BaseQuerySet
from .webhook import Webhook

FAST_SECONDS = 1.0
"""Duration below which a request is fast."""


class QueueLaneQuerySet(BaseQuerySet["QueueLane"]):
    def ensure(self, webhook_ids: Iterable[str]) -> None:
        """Insert the missing lanes of these webhooks."""
        self.bulk_create([QueueLane(webhook_id=pk) for pk in webhook_ids], ignore_conflicts=True)

    def lock(self, webhook_ids: Iterable[str]) -> None:
        """Prevent claims for these webhooks until the end of the transaction. Missing lanes are inserted."""
        ids = set(webhook_ids)
        if missing := ids - self._locked(ids):
            self.ensure(sorted(missing))
            self._locked(missing)

    def lock_free(self, webhook_id: str) -> bool:
        """Do as ``lock`` for one webhook, or return False if another transaction holds its lane."""
        rows = self.filter(pk=webhook_id).order_by()
        if not rows.exists():  # the insertion of an existing row would wait for its lock on MariaDB
            self.ensure([webhook_id])
        return bool(rows.free().values_list("pk", flat=True))

    def forget_pace(self, webhook: Webhook) -> None:
        """Reset the pace of a webhook after a change of its URL."""
        self.filter(pk=webhook.pk).update(is_fast=None)

    def _locked(self, webhook_ids: Iterable[str]) -> set[str]:
        return set(self.filter(pk__in=webhook_ids).order_by("pk").select_for_update().values_list("pk", flat=True))


class QueueLane(BaseModel):
    """The lock for claims of a webhook's deliveries, with the state shared by workers.

    A lane is inserted when a worker first finds a due delivery of the webhook.
    """

    webhook = models.OneToOneField(
        Webhook, primary_key=True, on_delete=models.CASCADE, related_name="lane", db_constraint=False
    )
    in_flight = models.JSONField(default=dict)
    """By worker: the number of its claims, and the Unix time in seconds at the end of the last lease."""
    unsigned_until = models.DateTimeField(null=True)
    """Time until which a worker that cannot read the webhook's keys leaves its deliveries to others."""
    next_slot_at = models.DateTimeField(
        _("rate limit used up until"), null=True, help_text=_("Pending deliveries are sent from then on.")
    )
    is_fast = models.BooleanField(null=True)
    """Whether the last request took less than ``FAST_SECONDS``, or None before the first result."""

    objects = QueueLaneQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("queue lane")
        verbose_name_plural = _("queue lanes")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.webhook_id)

    def claims_of_others(self, worker: int, now: datetime) -> int:
        """Return the number of deliveries in flight for other workers."""
        return sum(number for number, until in self.held_by_others(worker, now).values())

    def held_by_others(self, worker: int, now: datetime) -> dict[str, tuple[int, float]]:
        """Return the values of other workers with current leases."""
        moment = now.timestamp()
        return {
            name: (number, until)
            for name, (number, until) in self.claims.items()
            if name != str(worker) and until > moment
        }

    @property
    def claims(self) -> dict[str, tuple[int, float]]:
        """The values of ``in_flight``, except those of another form."""
        found = self.in_flight if isinstance(self.in_flight, dict) else {}
        return {name: (value[0], value[1]) for name, value in found.items() if _is_claim(value)}


def _is_claim(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and isinstance(value[0], int)
        and isinstance(value[1], (int, float))
    )
