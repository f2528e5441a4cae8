"""Removal of an owner's webhooks, API keys and events, or of single events, with their deliveries, in batches.

Locks are taken in the order of workers: webhooks, lanes, queue entries. The owner's row comes last, because a worker
that records a failed attempt locks the queue entry first. Its retry notice then refers to the owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models import QuerySet
from django.utils import timezone

from ..database.sql import take_write_lock, writing
from ..models import (
    ApiKey,
    Delivery,
    DeliveryAttempt,
    Event,
    MailPreference,
    PortalLink,
    QueueEntry,
    QueueLane,
    StoredAnswer,
    Webhook,
)
from ..models.audit import Action
from ..models.rollup import Rollup, id_of_account
from ..owners import owner_model
from ..plurals import counted

FORGOTTEN_AT_A_TIME = 1000
"""Rows per statement when everything is deleted in one transaction."""


@dataclass(kw_only=True, slots=True)
class Forgotten:
    """The number of deleted rows."""

    webhooks: int = 0
    api_keys: int = 0
    events: int = 0
    deliveries: int = 0
    attempts: int = 0

    def __str__(self) -> str:
        numbers = (
            counted(self.webhooks, "webhook"),
            counted(self.api_keys, "API key"),
            counted(self.events, "event"),
            counted(self.deliveries, "delivery", "deliveries"),
            counted(self.attempts, "attempt"),
        )
        return ", ".join(numbers)

    def add(self, counts: Counts) -> None:
        self.webhooks += counts.get(Webhook, 0)
        self.api_keys += counts.get(ApiKey, 0)
        self.events += counts.get(Event, 0)
        self.deliveries += counts.get(Delivery, 0)
        self.attempts += counts.get(DeliveryAttempt, 0)


class Forgetting:
    """The deletion of an owner's data. It can be repeated, because it deletes the webhooks last."""

    def __init__(self, using: str, owner_id: Any) -> None:
        self.forgotten = Forgotten()
        self._using = using
        self._owner_id = owner_id
        self._webhooks = Webhook.objects.using(using).filter(owner=owner_id)
        self._events = Event.objects.using(using).filter(owner=owner_id)

    def count(self) -> int:
        """Return the number of events and deliveries to delete."""
        of_events = Delivery.objects.using(self._using).filter(event__owner=self._owner_id)
        others = self._deliveries().filter(models.Q(event=None) | ~models.Q(event__owner=self._owner_id))
        return self._events.count() + of_events.count() + others.count()

    def run(self, progress: Callable[[int], object]) -> Forgotten:
        """Stop the webhooks and delete everything in short transactions.

        ``progress`` is called after each transaction with its number of events and deliveries.
        """
        self.stop()
        rows: models.QuerySet[Any]
        for rows in (self._events, self._deliveries()):
            for ids in batches_of(rows):
                before = self.forgotten.events + self.forgotten.deliveries
                with writing(self._using, Event):
                    self._lock_webhooks()
                    self._delete(rows.model, ids)
                progress(self.forgotten.events + self.forgotten.deliveries - before)
        with writing(self._using, Event):
            self.delete_rest()
        return self.forgotten

    def stop(self) -> None:
        """Delete the API keys and links, and stop sending to the webhooks."""
        PortalLink.objects.using(self._using).filter(owner=self._owner_id).delete()
        for api_key in ApiKey.objects.using(self._using).filter(owner=self._owner_id):
            api_key.delete()
            self.forgotten.api_keys += 1
        for webhook in self._webhooks.existing():
            with writing(self._using, Webhook):
                webhook.lock()
                with webhook.auditing(Action.WEBHOOK_DELETED):
                    webhook.deleted_at = webhook.deleted_at or timezone.now()
                    webhook.save(update_fields=["deleted_at"])

    def delete_rest(self) -> None:
        """Delete the remaining rows in the caller's transaction. Concurrent inserts wait for its end."""
        own, platforms = self._lock_webhooks()
        # Waits for results that are being recorded. Locked lanes prevent new ones.
        of_events = models.Q(webhook__in=platforms, event__in=self._events.order_by().values("pk"))
        entries = QueueEntry.objects.using(self._using).filter(webhook__in=[*own, *platforms]).order_by()
        entries.filter(models.Q(webhook__in=own) | of_events).remove()
        self._lock_owner()
        rows: models.QuerySet[Any]
        for rows in (self._events, self._deliveries()):
            for ids in _pages(rows):
                self._delete(rows.model, ids)
        for model in (StoredAnswer, PortalLink, MailPreference):
            model._default_manager.using(self._using).filter(owner=self._owner_id).delete()
        for others in (self._webhooks, ApiKey.objects.using(self._using).filter(owner=self._owner_id)):
            keys = list(others.order_by().values_list("pk", flat=True))
            self.forgotten.add(delete_rows(self._using, others.model, keys))
        Rollup.objects.using(self._using).filter(webhook_id=id_of_account(self._owner_id)).delete()

    def _deliveries(self) -> models.QuerySet[Delivery]:
        """Return all deliveries to the owner's webhooks, including handshakes and other owners' events."""
        return Delivery.objects.using(self._using).filter(webhook__owner=self._owner_id)

    def _lock_webhooks(self) -> tuple[list[str], list[str]]:
        """Prevent workers from claiming deliveries to the webhooks that receive the owner's events.

        Return the owner's webhooks and those of the platform.
        """
        own = list(self._webhooks.order_by("pk").select_for_update().values_list("pk", flat=True))
        rows = Webhook.objects.using(self._using).filter(owner=None).order_by()
        platforms = list(rows.values_list("pk", flat=True))
        QueueLane.objects.using(self._using).lock([*own, *platforms])
        return own, platforms

    def _lock_owner(self) -> None:
        rows = owner_model()._default_manager.using(self._using).filter(pk=self._owner_id)
        list(rows.order_by().select_for_update().values_list("pk", flat=True))

    def _delete(self, model: type[models.Model], ids: Sequence[str]) -> None:
        self.forgotten.add(_delete(self._using, model, ids))


def forget(using: str, owner_id: Any, progress: Callable[[int], object] = lambda count: None) -> Forgotten:
    """Delete everything that belongs to an owner, in short transactions."""
    return Forgetting(using, owner_id).run(progress)


def forget_deleted(sender: type[models.Model], instance: Any, using: str, **kwargs: Any) -> None:
    """Delete everything that belongs to an owner, in the same transaction (signal handler for ``pre_delete``)."""
    take_write_lock(using, Webhook)
    Forgetting(using, instance.pk).delete_rest()


def forget_events(using: str, events: models.QuerySet[Event]) -> Forgotten:
    """Delete events with their deliveries, in short transactions."""
    forgotten = Forgotten()
    for ids in batches_of(events.using(using)):
        with writing(using, Event):
            forgotten.add(_delete(using, Event, ids))
    return forgotten


def _delete(using: str, model: type[models.Model], ids: Sequence[str]) -> Counts:
    """Delete events or deliveries with their queue entries. A claim of one can no longer record a result."""
    entries = QueueEntry.objects.using(using).order_by()
    deliveries = _deliveries_of(using, ids) if model is Event else ids
    pending = [pk for part in parts(deliveries) for pk in entries.filter(pk__in=part).values_list("pk", flat=True)]
    if pending:
        entries.filter(pk__in=pending).remove()
    return delete_rows(using, model, ids)


def _deliveries_of(using: str, event_ids: Sequence[str]) -> list[str]:
    """Return the deliveries of these events. No index of the queue covers events."""
    rows = Delivery.objects.using(using).order_by()
    return [pk for part in parts(event_ids) for pk in rows.filter(event__in=part).values_list("pk", flat=True)]


def _pages(rows: models.QuerySet[Any]) -> Iterator[list[str]]:
    while ids := first_keys(rows, FORGOTTEN_AT_A_TIME):
        yield ids


SLOW_SECONDS, QUICK_SECONDS = 0.03, 0.012
"""Bounds for the duration of a batch, during which it holds its locks. The next batch is halved after a slower one and
grows after a quicker one. The bounds are low, because the next batch may take three times as long on a busy machine."""

FIRST_ROWS, LEAST_ROWS, MOST_ROWS = 200, 20, 10_000

IDS_TO_A_STATEMENT = 1000


class BatchSize:
    """The number of ``rows`` of the next batch."""

    def __init__(self) -> None:
        self.rows = FIRST_ROWS

    def begin(self) -> None:
        """Reset the batch size for another kind of row, which may take far longer to delete."""
        self.rows = min(self.rows, FIRST_ROWS)

    def adapt(self, seconds: float) -> None:
        """Adjust the size after a batch that took ``seconds``."""
        if seconds > SLOW_SECONDS:
            self.rows = max(LEAST_ROWS, self.rows // 2)
        elif seconds < QUICK_SECONDS:
            self.rows = min(MOST_ROWS, self.rows * 3 // 2)


def parts(ids: Collection[str]) -> Iterator[list[str]]:
    """Yield the ids in lists that are short enough for one statement."""
    listed = list(ids)
    for start in range(0, len(listed), IDS_TO_A_STATEMENT):
        yield listed[start : start + IDS_TO_A_STATEMENT]


def batches_of(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Yield the keys of rows that the caller deletes, in batches of limited duration with a pause after each."""
    size = BatchSize()
    while ids := first_keys(rows, size.rows):
        began = time.monotonic()
        yield ids
        seconds = time.monotonic() - began
        size.adapt(seconds)
        time.sleep(seconds)


def first_keys(rows: QuerySet[Any], number: int) -> list[Any]:
    """Return the keys of some of the rows, at most ``number``."""
    return list(rows.order_by().values_list("pk", flat=True)[:number])


Counts = dict[type[models.Model], int]


def delete_rows(using: str, model: type[models.Model], ids: Sequence[Any]) -> Counts:
    """Delete the rows with these keys, children first. Return the number of deleted rows by model.

    Follows ``on_delete`` for CASCADE and SET_NULL, without signals.
    """
    counts: Counts = {}
    for some in parts(ids):
        for field in _references_to(model):
            rows = field.model._base_manager.using(using).filter(**{f"{field.name}__in": some})  # noqa: SLF001 - public API
            if field.remote_field.on_delete is models.SET_NULL:
                rows.update(**{field.name: None})
            elif field.remote_field.on_delete is models.CASCADE:
                _add(counts, _delete_children(using, field.model, rows))
        _add(counts, {model: _raw_delete(model._default_manager.using(using).filter(pk__in=some))})
    return counts


def _delete_children(using: str, model: type[models.Model], rows: Any) -> Counts:
    if any(_references_to(model)):
        return delete_rows(using, model, list(rows.order_by().values_list("pk", flat=True)))
    return {model: _raw_delete(rows)}


def _references_to(model: type[models.Model]) -> Iterator[Any]:
    """Return the foreign keys to a model, including those without a reverse name."""
    for relation in model._meta.get_fields(include_hidden=True):
        if relation.auto_created and not relation.concrete and (relation.one_to_many or relation.one_to_one):
            yield relation.field  # type: ignore[union-attr]


def _raw_delete(rows: Any) -> int:
    return int(rows._raw_delete(rows.db))  # noqa: SLF001 - the referring rows are already deleted


def _add(counts: Counts, more: Counts) -> None:
    for model, number in more.items():
        counts[model] = counts.get(model, 0) + number
