"""What the workers tell of themselves, and of the chores that one of them does at a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class ChoreStateQuerySet(models.QuerySet["ChoreState"]):
    def ensure(self, names: Iterable[str]) -> None:
        """Insert the chores that are not there yet; they are due at once."""
        known = set(self.values_list("name", flat=True))
        if missing := [ChoreState(name=name) for name in names if name not in known]:
            self.bulk_create(missing, ignore_conflicts=True)

    def lock(self, name: str) -> None:
        """Keep everyone else who locks this chore waiting until the transaction ends."""
        self.select_for_update().filter(name=name).order_by().first()

    def take(self, name: str, now: datetime, next_run_at: datetime) -> bool:
        """Plan the next run of a chore that is due; return whether this one is the caller's, and nobody else's."""
        due = self.filter(name=name, next_run_at__lte=now)
        return due.update(next_run_at=next_run_at, started_at=now) == 1


class ChoreState(models.Model):
    """When a chore was done last, how it ended, and when it is due again."""

    name = models.CharField(_("name"), max_length=40, primary_key=True)
    next_run_at = models.DateTimeField(_("next run"), default=timezone.now)
    started_at = models.DateTimeField(_("started"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)
    error = models.CharField(_("error"), max_length=500, blank=True)
    facts = models.JSONField(_("facts"), default=dict)
    """What the chore found or has to remember."""

    objects = ChoreStateQuerySet.as_manager()

    class Meta:
        verbose_name = _("chore")
        verbose_name_plural = _("chores")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class WorkerProcess(models.Model):
    """A process that delivers, as it reported itself last."""

    id = models.CharField(max_length=150, primary_key=True, serialize=False)
    host = models.CharField(_("host"), max_length=100)
    pid = models.PositiveIntegerField(_("process"))
    version = models.CharField(_("version"), max_length=40)
    transport = models.CharField(_("transport"), max_length=40)
    started_at = models.DateTimeField(_("started"))
    seen_at = models.DateTimeField(_("seen"))
    in_flight = models.PositiveIntegerField(_("in flight"), default=0)
    database_ahead_ms = models.IntegerField(_("database's clock ahead (ms)"), default=0)

    class Meta:
        verbose_name = _("worker process")
        verbose_name_plural = _("worker processes")
        ordering = ("-seen_at",)
        indexes = (models.Index(fields=("seen_at",), name="webhooks_worker_seen"),)

    def __str__(self) -> str:
        return self.id
