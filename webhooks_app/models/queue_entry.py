"""The queue: a narrow row for each pending delivery.

The wide row of a delivery is for users. All columns for claims are here. No index covers the columns that a claim sets,
and the table's fill factor leaves space for the new version of a row on the same page, so a claim changes no index.

Of a group of ordered deliveries only the first is sent; the others are parked. A claim parks due entries that are not
the first of their group, with their lane locked. Every removal of an entry makes the next one of its group due, with
the same lock. Therefore an entry is parked at most once, and claims never read parked entries, regardless of their
number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from django.db import connections, models
from django.utils.translation import gettext_lazy as _

from ..database.dialects import dialect_of
from ..database.sql import OuterId, UtcNow, compiled, for_each, take_write_lock
from ..retry import MAX_PACKED_LENGTH
from ..signals import announce_deliveries
from .base import BaseModel
from .delivery_columns import COPIED
from .event import MAX_ORDERING_KEY_LENGTH
from .fields import IdField, LooseCharField, PartialIndex
from .lane import QueueLane
from .order import OrderedEntries, places
from .status import PROBES
from .webhook import Webhook

if TYPE_CHECKING:
    from .delivery import Delivery

ENTRIES_AT_A_TIME = 500

MANY_ENTRIES = 1000
"""Number of entries from which a page does not sort them."""

SOUGHT_ENTRIES = 1000
"""Number of entries in which the claims of some webhooks are sought first."""

WEBHOOKS_AT_A_TIME = 400
"""Webhooks of a statement with a SELECT for each. SQLite permits 500."""

KEYS_AT_A_TIME = 20 * ENTRIES_AT_A_TIME
"""Keys to load at once. Selecting them may read all entries of a webhook."""


class QueueEntryQuerySet(OrderedEntries):
    def unclaimed(self) -> Self:
        return self.filter(claimed_at=None)

    def claimed(self) -> Self:
        return self.filter(claimed_at__isnull=False)

    def claimed_first(self, webhook_ids: Sequence[str], number: int) -> list[str]:
        """Return the claimed entries among the first ``number`` due ones of each webhook, with which claims begin.

        There may be a long backlog behind them, which is not read. Of many webhooks, only few entries are read unless
        most of these are claimed.
        """
        found: list[str] = []
        left, few = set(webhook_ids), min(number, max(1, SOUGHT_ENTRIES // max(1, len(webhook_ids))))
        while left:
            claims = self._claimed_among_first(sorted(left), few)
            numbers = Counter(webhook_id for _pk, webhook_id in claims)
            left = {pk for pk in left if few < number and numbers[pk] > few / 2}
            found += [pk for pk, webhook_id in claims if webhook_id not in left]
            few = min(number, 4 * few)
        return found

    def _claimed_among_first(self, webhook_ids: Sequence[str], number: int) -> list[tuple[str, str | None]]:
        """Return the claimed entries with their webhooks."""
        connection, field = connections[self.db], IdField(prefix="wh")
        first = self.filter(webhook=OuterId("lane"), due_at__isnull=False).order_by("due_at")
        columns = first.values_list("delivery_id", "webhook_id", "claimed_at")[:number]
        ids = [field.get_db_prep_value(pk, connection) for pk in webhook_ids]
        at_a_time = len(ids) if dialect_of(self.db).has_lateral_joins else WEBHOOKS_AT_A_TIME
        rows: list[tuple[Any, Any]] = []
        for start in range(0, len(ids), max(1, at_a_time)):
            sql, params = for_each(connection, "lane", ids[start : start + at_a_time], compiled(columns))
            claimed = f"SELECT delivery_id, webhook_id FROM ({sql}) AS first WHERE claimed_at IS NOT NULL"
            with connection.cursor() as cursor:
                cursor.execute(claimed, params)
                rows += cursor.fetchall()
        pk: Any = self.model._meta.pk
        return [
            (pk.target_field.from_db_value(found, None, connection), field.from_db_value(webhook, None, connection))
            for found, webhook in rows
        ]

    def has_many(self, webhook_ids: Sequence[str]) -> bool:
        """Return True if there are more than ``MANY_ENTRIES`` entries of these webhooks."""
        entries = self.filter(webhook__in=webhook_ids).order_by().values_list("webhook")  # by an index only
        return bool(entries[MANY_ENTRIES : MANY_ENTRIES + 1])

    def awaiting_filter(self) -> Self:
        """Return the entries whose filter a worker has still to evaluate."""
        return self.filter(filter_at__isnull=False)

    def await_filter(self) -> int:
        """Hold the rows, which no worker can have claimed, until a worker has evaluated the filter of their webhook."""
        return self.update(due_at=None, filter_at=UtcNow())

    def evaluate_again(self, webhook: Webhook) -> None:
        """Evaluate the filter of a webhook for the deliveries that await it, in the caller's transaction."""
        QueueLane.objects.using(self.db).lock([webhook.pk])
        self.awaiting_filter().filter(webhook=webhook).update(filter_at=UtcNow())

    def add(self, deliveries: Sequence[Delivery], due_at: datetime | None = None) -> None:
        """Queue new deliveries, due one after the other, a microsecond apart, from this time on or, by default, now.

        The default is the database's time, so that a wrong local clock cannot delay them. Then all are due at once.
        """
        found = places(self.db, deliveries)
        entries = []
        for number, delivery in enumerate(deliveries):
            moment = UtcNow() if due_at is None else due_at + timedelta(microseconds=number)
            entry = QueueEntry.of(delivery, moment)
            entry.order_key, entry.place = found.get(delivery.pk, (None, None))
            entries.append(entry)
        self.bulk_create(entries, batch_size=ENTRIES_AT_A_TIME)

    def remove(self) -> None:
        """Delete the rows in the same way as ``removing``."""
        for _page in self.removing():
            pass

    def removing(self) -> Iterator[Sequence[str]]:
        """Delete the rows without checking for related objects, of which there are none. Yield the keys of each page.

        The next deliveries of their groups become due. A row that no longer matches when it is locked remains. Must be
        used in a transaction.
        """
        take_write_lock(self.db, self.model)
        webhook_ids = list(self.order_by().values_list("webhook", flat=True).distinct())
        QueueLane.objects.using(self.db).lock(webhook_ids)
        promoted = 0
        for ids in _pages(self.filter(webhook__in=webhook_ids)):
            promoted += self._remove_page(ids)
            yield ids
        if promoted:
            announce_deliveries(self.db)

    def remove_first(self, webhook_id: str, number: int) -> list[str]:
        """Delete the first few of a webhook's rows in the same way as ``removing``, and return their keys.

        The cost does not depend on the number of rows, because they are read in the order of an index.
        """
        take_write_lock(self.db, self.model)
        QueueLane.objects.using(self.db).lock([webhook_id])
        first = self.filter(webhook=webhook_id).order_by("webhook_id", "due_at")
        ids = list(first.values_list("pk", flat=True)[:number])
        if ids and self._remove_page(ids):
            announce_deliveries(self.db)
        return ids

    def _remove_page(self, ids: Sequence[str]) -> int:
        """Delete the rows that still match, and return the number of deliveries that became due."""
        QueueEntry.objects.using(self.db).lock(ids)
        page = self.filter(pk__in=ids)
        following = page.following()
        page._raw_delete(self.db)  # noqa: SLF001 - nothing refers to the rows
        return self.promote(following)


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
    due_at = models.DateTimeField(null=True)
    """None for a parked delivery. Claims do not read it until the earlier deliveries of its group are final."""
    expires_at = models.DateTimeField(null=True)
    kind = models.CharField(max_length=12)
    max_attempts = models.PositiveSmallIntegerField()
    retry_policy = LooseCharField(max_length=MAX_PACKED_LENGTH, blank=True)
    # Claims change only the following columns, adjacent as those of a delivery's result.
    attempt = models.PositiveSmallIntegerField(default=0)
    """The number of the last started attempt, committed before its request is sent."""
    claimed_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True)
    worker = models.BigIntegerField(null=True)
    """The number of the claiming worker, see ``WorkerSession.number``."""
    order_key = LooseCharField(max_length=MAX_ORDERING_KEY_LENGTH, null=True)  # null costs nothing
    """Its group among the deliveries of the webhook: an ordering key, or "" if all of them are one group."""
    place = models.BigIntegerField(null=True)
    """Its place in the group: a number from the database, minus ``BEGUN`` from the first attempt. None if unordered."""
    filter_at = models.DateTimeField(null=True)
    """Time at which a worker evaluates the webhook's filter for it. ``due_at`` is None until the filter matches. None
    if the filter was evaluated when the event was emitted."""

    objects = QueueEntryQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("queue entry")
        verbose_name_plural = _("queue entries")
        default_permissions = ()
        indexes = (
            models.Index(fields=("webhook", "due_at"), name="webhooks_queue_due"),
            # Finds them before the events that wait for the verification, without a cost for events.
            PartialIndex(
                fields=("webhook", "due_at"),
                only=models.Q(kind__in=PROBES),
                otherwise=("webhook", "kind", "due_at"),
                name="webhooks_queue_probes",
            ),
            PartialIndex(
                fields=("webhook", "order_key", "place"),
                only=models.Q(place__isnull=False),
                name="webhooks_queue_order",
            ),
            PartialIndex(
                fields=("filter_at", "webhook"),
                only=models.Q(filter_at__isnull=False),
                otherwise=("filter_at",),
                name="webhooks_queue_filter",
            ),
        )

    def __str__(self) -> str:
        return str(self.delivery_id)

    @classmethod
    def of(cls, delivery: Delivery, due_at: Any) -> Self:
        return cls(delivery_id=delivery.pk, due_at=due_at, **{name: getattr(delivery, name) for name in COPIED})


def _pages(entries: QueueEntryQuerySet) -> Iterator[list[str]]:
    """Yield the keys in pages, in their order. A long backlog is never loaded at once."""
    rest = entries
    while ids := list(rest.order_by("pk").values_list("pk", flat=True)[:KEYS_AT_A_TIME]):
        yield from (ids[start : start + ENTRIES_AT_A_TIME] for start in range(0, len(ids), ENTRIES_AT_A_TIME))
        rest = entries.filter(pk__gt=ids[-1])
