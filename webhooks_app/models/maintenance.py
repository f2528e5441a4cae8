"""The state of worker processes, their sessions and maintenance jobs, and the sizes of the tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.apps import apps
from django.db import connections, models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..database.dialects import TableEstimate, dialect_of
from ..database.sql import UtcNow
from ..protocol.ids import time_of
from .base import BaseModel, BaseQuerySet
from .fields import IdField

SEEN_WITHIN = timedelta(minutes=1)
"""Maximum age of the last sign of life of a running worker process, or of beat. Both send one every few seconds."""


class MaintenanceJobQuerySet(BaseQuerySet["MaintenanceJob"]):
    def ensure(self, names: Iterable[str]) -> None:
        """Insert missing jobs, due immediately."""
        known = set(self.values_list("name", flat=True))
        if missing := [MaintenanceJob(name=name) for name in names if name not in known]:
            self.bulk_create(missing, ignore_conflicts=True)

    def lock(self, name: str) -> None:
        """Lock the job until the end of the transaction."""
        self.select_for_update().filter(name=name).order_by().first()


class MaintenanceJob(BaseModel):
    """The last and the next run of a job."""

    name = models.CharField(_("name"), max_length=40, primary_key=True)
    next_run_at = models.DateTimeField(_("next run"), default=timezone.now)
    started_at = models.DateTimeField(_("started"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)
    error = models.CharField(_("error"), max_length=500, blank=True)
    facts = models.JSONField(_("facts"), default=dict)
    """The results and stored state of the job."""

    objects = MaintenanceJobQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("maintenance job")
        verbose_name_plural = _("maintenance jobs")
        default_permissions = ()
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def take(self, now: datetime, next_run_at: datetime) -> bool:
        """Schedule the next run. Return True if the caller must run the job now, False if another process does.

        Another process can only have changed the other fields along with ``next_run_at``.
        """
        row = type(self).objects.using(self._state.db).filter(pk=self.pk, next_run_at=self.next_run_at)
        self.next_run_at, self.started_at = next_run_at, now
        return row.update(next_run_at=next_run_at, started_at=now) == 1


class WorkerProcessQuerySet(BaseQuerySet["WorkerProcess"]):
    def running(self) -> Self:
        """Return the processes that have reported themselves within a minute, by the database's clock."""
        return self.with_liveness().filter(is_alive=True)

    def with_liveness(self) -> Self:
        """Return the processes, with ``is_alive`` for the running ones."""
        return self.annotate(is_alive=models.Q(seen_at__gte=UtcNow() - SEEN_WITHIN))


class WorkerProcess(BaseModel):
    """The last report of a process that delivers."""

    id = models.CharField(max_length=150, primary_key=True, serialize=False)
    host = models.CharField(_("host"), max_length=100)
    pid = models.PositiveIntegerField(_("process"))
    version = models.CharField(_("version"), max_length=40)
    transport = models.CharField(_("transport"), max_length=40)
    started_at = models.DateTimeField(_("started"))
    seen_at = models.DateTimeField(_("seen"))
    in_flight = models.PositiveIntegerField(_("in flight"), default=0)
    lacks_descriptors = models.BooleanField(_("lacks file descriptors"), default=False)
    database_ahead_ms = models.IntegerField(_("database's clock ahead (ms)"), default=0)

    objects = WorkerProcessQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("worker process")
        verbose_name_plural = _("worker processes")
        default_permissions = ()
        ordering = ("-seen_at",)
        indexes = (models.Index(fields=("seen_at",), name="webhooks_worker_seen"),)

    def __str__(self) -> str:
        return self.id


class WorkerSession(BaseModel):
    """The heartbeat of an engine that claims deliveries, read by the other engines.

    The only index is the primary key, so that renewals change no index.
    """

    number = models.BigIntegerField(primary_key=True)
    """The number in this engine's claims, see ``QueueEntry.worker``."""
    session_pid = models.PositiveIntegerField(null=True)
    """The process number of the database session, or None if sessions are invisible or shared."""
    session_started_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField()

    class Meta:
        verbose_name = _("worker session")
        verbose_name_plural = _("worker sessions")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSize:
    """The estimate for one table. None means that the database does not provide the figure."""

    model: type[models.Model]
    rows: int | None
    size: int | None
    """Bytes, including indexes."""
    since: datetime | None
    """The creation time of the oldest row, for identifiers that contain the time."""

    @property
    def name(self) -> str:
        return str(self.model._meta.verbose_name_plural)


def table_sizes(using: str) -> list[TableSize]:
    """Return estimates for every table of this app, with one query for all and one index lookup for each."""
    tables = list(apps.get_app_config("webhooks_app").get_models())
    names = [model._meta.db_table for model in tables]
    estimates = dialect_of(using).table_estimates(connections[using], names)
    return [
        TableSize(model=model, rows=rows, size=size, since=_since(using, model))
        for model, name in zip(tables, names, strict=True)
        for rows, size in [estimates.get(name, TableEstimate(None, None))]
    ]


def _since(using: str, model: type[models.Model]) -> datetime | None:
    key: Any = model._meta.pk_fields[0]
    if not isinstance(key.target_field if key.is_relation else key, IdField):
        return None
    oldest = model._default_manager.using(using).order_by("pk").values_list(key.attname, flat=True).first()
    return None if oldest is None else time_of(oldest)
