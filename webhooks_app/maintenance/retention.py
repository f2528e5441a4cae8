"""Deletion of data at the end of its retention, in small batches.

An event is pruned with its deliveries and attempts: first the body and the attempts, after ``ATTEMPT_RETENTION_DAYS``,
later everything. Its age is that of its youngest delivery, by the creation time in the identifier. Events with a
pending delivery are not pruned.

What is small or short-lived, such as roll-ups and links, the workers delete themselves every minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections, models, router
from django.utils import timezone

from ..conf import settings
from ..database.sql import writing
from ..models import (
    AuditEntry,
    Delivery,
    DeliveryAttempt,
    Event,
    EventReference,
    IdempotencyKey,
    PortalLink,
    Replay,
    SigningKey,
    StoredAnswer,
    Webhook,
    WorkerProcess,
)
from ..plurals import counted
from ..protocol.ids import first_id_at
from .announcements import forget_announcements
from .forgetting import BatchSize, parts
from .problems import forget_problems
from .rollups.folding import forget_old

logger = logging.getLogger("webhooks_app.retention")

UNSTARTED_REPLAYS_KEPT = timedelta(days=7)
PROCESSES_KEPT = timedelta(days=1)

Progress = Callable[[int], None]

NOUNS = {
    "attempts": ("attempt",),
    "bodies": ("body", "bodies"),
    "deliveries": ("delivery", "deliveries"),
    "events": ("event",),
    "webhooks": ("webhook",),
    "replays": ("replay",),
    "audit_entries": ("audit entry", "audit entries"),
}


@dataclass(kw_only=True, slots=True)
class Pruned:
    """Numbers of deleted rows and of emptied event bodies."""

    attempts: int = 0
    bodies: int = 0
    deliveries: int = 0
    events: int = 0
    webhooks: int = 0
    replays: int = 0
    audit_entries: int = 0
    is_complete: bool = True
    """False if the time limit was reached. There may be more to prune."""

    def __str__(self) -> str:
        return ", ".join(counted(getattr(self, kind), *nouns) for kind, nouns in NOUNS.items())


def prune(
    *,
    now: datetime | None = None,
    attempt_age: timedelta | None = None,
    event_age: timedelta | None = None,
    max_seconds: float | None = None,
    is_dry_run: bool = False,
    progress: Progress = lambda rows: None,
) -> Pruned:
    """Delete rows at the end of their retention, except pending ones, for at most ``max_seconds``.

    The settings define the ages by default, and always those of single event types. A deleted webhook goes with the
    last of its history. A replay goes with the last of its deliveries, or if it is not started in time. Replaced
    secrets go after their overlap. ``progress`` is called after each batch with the number of rows. A dry run only
    counts.

    Can be interrupted, repeated, and run concurrently with workers and other runs.
    """
    now = now or timezone.now()
    attempts_before = now - (attempt_age or timedelta(days=settings.ATTEMPT_RETENTION_DAYS))
    events_before = now - (event_age or timedelta(days=settings.EVENT_RETENTION_DAYS))
    pruning = _DryRun(max_seconds, progress) if is_dry_run else _Pruning(max_seconds, progress)
    for event_type in pruning.event_types():
        if event_type in settings.RETENTION_DAYS_BY_TYPE:
            pruning.delete_events(event_type, now - timedelta(days=settings.RETENTION_DAYS_BY_TYPE[event_type]))
        else:
            pruning.delete_events(event_type, events_before)
            pruning.strip_events(event_type, attempts_before, since=events_before)
    pruning.delete_handshakes(events_before)
    pruning.strip_handshakes(attempts_before, since=events_before)
    pruning.delete_webhooks(events_before)
    pruning.delete_replays(now - UNSTARTED_REPLAYS_KEPT, events_before)
    pruning.delete_audit_entries(now - timedelta(days=settings.AUDIT_RETENTION_DAYS))
    if not is_dry_run:
        pruned = pruning.pruned
        logger.info(
            "Pruned %s%s.",
            pruned,
            "" if pruned.is_complete else "; the time limit was reached before the end",
            extra=asdict(pruned),
        )
    return pruning.pruned


def delete_expired(using: str, now: datetime) -> None:
    """Delete roll-ups, problems, announcements, stored answers, links and worker processes at the end of their time."""
    forget_old(using, now)
    forget_problems(using, now)
    forget_announcements(using, now)
    StoredAnswer.objects.using(using).expired(now).delete()
    PortalLink.objects.using(using).expired(now).delete()
    WorkerProcess.objects.using(using).filter(seen_at__lt=now - PROCESSES_KEPT).delete()


class _Pruning:
    def __init__(self, max_seconds: float | None, progress: Progress) -> None:
        self.pruned = Pruned()
        self._using = router.db_for_write(Event)
        self._progress = progress
        self._ends_at = None if max_seconds is None else time.monotonic() + max_seconds
        self._size = BatchSize()

    def event_types(self) -> Iterator[str]:
        """Yield the types of stored events, with one index lookup each."""
        found: str | None = ""
        types = Event.objects.using(self._using).order_by("type").values_list("type", flat=True)
        while found := types.filter(type__gt=found).first():
            yield found

    def delete_events(self, event_type: str, before: datetime) -> None:
        """Delete a type's events with their whole history."""
        events = Event.objects.using(self._using).filter(type=event_type).queued_before(before)
        for ids in self._batches(events):
            with writing(self._using, Event):
                event_ids, delivery_ids = self._ended(ids, before)
                attempts = self._delete_attempts(delivery_ids)
                deliveries = self._delete_deliveries(delivery_ids)
                self._forget(event_ids)
                gone = self._delete(Event, event_ids)
            self._count(attempts=attempts, deliveries=deliveries, events=gone)

    def strip_events(self, event_type: str, before: datetime, *, since: datetime) -> None:
        """Delete the bodies and attempts of a type's events. A dry run skips events before ``since``."""
        events = Event.objects.using(self._using).filter(type=event_type).queued_before(before)
        for ids in self._batches(self._from(events.with_body(), since)):
            with writing(self._using, Event):
                event_ids, delivery_ids = self._ended(ids, before)
                attempts = self._delete_attempts(delivery_ids)
                bodies = self._empty(event_ids)
            self._count(attempts=attempts, bodies=bodies)

    def delete_handshakes(self, before: datetime) -> None:
        for ids in self._batches(self._handshakes(before)):
            with writing(self._using, Delivery):
                attempts, deliveries = self._delete_attempts(ids), self._delete_deliveries(ids)
            self._count(attempts=attempts, deliveries=deliveries)

    def strip_handshakes(self, before: datetime, *, since: datetime) -> None:
        for ids in self._batches(self._from(self._handshakes(before), since)):
            self._count(attempts=self._delete_attempts(ids))

    def delete_webhooks(self, before: datetime) -> None:
        webhooks = Webhook.objects.using(self._using)
        SigningKey.objects.using(self._using).delete_expired()
        history = self._kept(before).filter(webhook=models.OuterRef("pk"))
        for ids in self._batches(webhooks.filter(models.Q(deleted_at__lt=before), ~models.Exists(history))):
            _, deleted = webhooks.filter(pk__in=ids).delete()
            self._count(webhooks=deleted.get(Webhook._meta.label, 0))

    def delete_replays(self, planned_before: datetime, ended_before: datetime) -> None:
        replays = Replay.objects.using(self._using)
        kept = self._kept(ended_before)
        ended = replays.kept_no_longer(kept, planned_before=planned_before, ended_before=ended_before)
        for ids in self._batches(ended):
            self._count(replays=self._delete_rows(ended.filter(pk__in=ids)))  # except those started meanwhile

    def delete_audit_entries(self, before: datetime) -> None:
        entries = AuditEntry.objects.using(self._using).filter(pk__lt=first_id_at("aud", before))
        for ids in self._batches(entries):
            self._count(audit_entries=sum(self._delete(AuditEntry, part) for part in parts(ids)))

    def _batches(self, rows: models.QuerySet[Any]) -> Iterator[list[str]]:
        """Yield the ids of the rows, oldest first, in batches of limited duration, until the time limit.

        Other writers wait for one batch at most. Between two batches there is a pause of the same duration.
        """
        after = ""
        self._size.begin()
        while not self._is_over():
            size = self._size.rows
            page = list(rows.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:size])
            for batch in self._by_weight(rows.model, page):
                if self._is_over():
                    break
                began = time.monotonic()
                yield batch
                self._adapt(time.monotonic() - began)
            if len(page) < size:
                return
            after = page[-1]

    def _by_weight(self, model: type[models.Model], page: list[str]) -> Iterator[list[str]]:
        """Split the ids into parts with a similar number of rows, including deliveries and attempts."""
        weights = self._weights(model, page) if page else {}
        batch: list[str] = []
        weight = 0
        for pk in page:
            weight += 1 + weights.get(pk, 0)
            if batch and weight > self._size.rows:
                yield batch
                batch, weight = [], 1 + weights.get(pk, 0)
            batch.append(pk)
        if batch:
            yield batch

    def _weights(self, model: type[models.Model], page: list[str]) -> dict[str, int]:
        """Return the number of dependent rows by id."""
        deliveries = Delivery.objects.using(self._using).order_by()
        if model is Event:
            rows = deliveries.filter(event__in=page).values_list("event")
            return dict(rows.annotate(weight=models.Sum(models.F("attempt_count") + 1)))
        return dict(deliveries.filter(pk__in=page).values_list("pk", "attempt_count")) if model is Delivery else {}

    def _adapt(self, seconds: float) -> None:
        self._size.adapt(seconds)
        time.sleep(seconds)

    def _is_over(self) -> bool:
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            self.pruned.is_complete = False
        return not self.pruned.is_complete

    def _ended(self, ids: Collection[str], before: datetime) -> tuple[list[str], list[str]]:
        """Lock the events. Return those without pending or younger deliveries, and their deliveries.

        Redelivery locks the event too, so no redelivery can start meanwhile. Events locked by another transaction are
        skipped until the next run.
        """
        locked = self._lock(ids)
        rows = Delivery.objects.using(self._using).filter(event__in=locked).order_by()
        youngest = first_id_at("dlv", before)
        deliveries = list(rows.values_list("pk", "event_id", "state"))
        kept = {event_id for pk, event_id, state in deliveries if state == Delivery.State.PENDING or pk >= youngest}
        event_ids = [pk for pk in locked if pk not in kept]
        return event_ids, [pk for pk, event_id, _ in deliveries if event_id not in kept]

    def _lock(self, ids: Collection[str]) -> list[str]:
        skips = connections[self._using].features.has_select_for_update_skip_locked
        events = Event.objects.using(self._using).filter(pk__in=ids).order_by("pk")
        return list(events.select_for_update(skip_locked=skips).values_list("pk", flat=True))

    def _from(self, rows: models.QuerySet[Any], since: datetime) -> models.QuerySet[Any]:
        return rows

    def _kept(self, before: datetime) -> models.QuerySet[Delivery]:
        """Return the deliveries that remain after pruning the older ones."""
        return Delivery.objects.using(self._using)

    def _handshakes(self, before: datetime) -> models.QuerySet[Delivery]:
        """Return the final deliveries without an event."""
        return Delivery.objects.using(self._using).final().filter(event=None, pk__lt=first_id_at("dlv", before))

    def _delete_attempts(self, delivery_ids: Collection[str]) -> int:
        return sum(self._delete(DeliveryAttempt, part, by="delivery") for part in parts(delivery_ids))

    def _delete_deliveries(self, ids: Collection[str]) -> int:
        return sum(self._delete(Delivery, part) for part in parts(ids))

    def _forget(self, event_ids: Collection[str]) -> None:
        """Delete the references and idempotency keys of events."""
        for part in parts(event_ids):
            self._delete(EventReference, part, by="event")
            self._delete(IdempotencyKey, part, by="event")

    def _empty(self, ids: Collection[str]) -> int:
        return Event.objects.using(self._using).filter(pk__in=ids).update(body="") if ids else 0

    def _delete(self, model: type[models.Model], ids: Collection[str], *, by: str = "pk") -> int:
        """Delete rows without checking references. Children must be deleted first."""
        return self._delete_rows(model._default_manager.using(self._using).filter(**{f"{by}__in": ids})) if ids else 0

    def _delete_rows(self, rows: Any) -> int:
        return int(rows._raw_delete(self._using))  # noqa: SLF001 - the only way to skip the check

    def _count(self, **numbers: int) -> None:
        for kind, number in numbers.items():
            setattr(self.pruned, kind, getattr(self.pruned, kind) + number)
        if total := sum(numbers.values()):
            self._progress(total)


class _DryRun(_Pruning):
    """Count the same rows without deleting them."""

    def _adapt(self, seconds: float) -> None:
        self._size.adapt(0.0)  # a dry run takes no locks

    def _from(self, rows: models.QuerySet[Any], since: datetime) -> models.QuerySet[Any]:
        return rows.filter(pk__gte=first_id_at("evt" if rows.model is Event else "dlv", since))

    def _kept(self, before: datetime) -> models.QuerySet[Delivery]:
        is_young = models.Q(pk__gte=first_id_at("dlv", before))
        return super()._kept(before).filter(is_young | models.Q(state=Delivery.State.PENDING))

    def _lock(self, ids: Collection[str]) -> list[str]:
        return list(ids)

    def _delete_deliveries(self, ids: Collection[str]) -> int:
        return len(ids)

    def _forget(self, event_ids: Collection[str]) -> None:
        pass

    def _empty(self, ids: Collection[str]) -> int:
        return len(ids)

    def _delete_rows(self, rows: Any) -> int:
        return int(rows.count())

    def delete_webhooks(self, before: datetime) -> None:
        webhooks = Webhook.objects.using(self._using).filter(deleted_at__lt=before)
        history = self._kept(before).filter(webhook=models.OuterRef("pk"))
        self._count(webhooks=webhooks.exclude(models.Exists(history)).count())
