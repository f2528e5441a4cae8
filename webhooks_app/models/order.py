"""The order of a webhook's deliveries: the groups of queue entries, their next ones, and the numbers of their places.

Of a group only the first entry is sent; the others are parked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from django.db import connections, models
from django.utils.translation import gettext_lazy as _

from ..database.dialects import dialect_of
from ..database.sql import UtcNow, writing
from ..signals import announce_deliveries
from .base import BaseModel, BaseQuerySet
from .event import Event
from .fields import IdField
from .lane import QueueLane
from .webhook import Order, Webhook

if TYPE_CHECKING:
    from .delivery import Delivery

IDS_AT_A_TIME = 500

BEGUN = 2**62
"""Subtracted from the place of a delivery at its first claim, so that it remains the first of its group.

A transaction with a late commit may insert a lower number while a later delivery is being sent."""


def group_of(order: str, ordering_key: str | None) -> str | None:
    """Return the group of an event's delivery, or None if it is unordered, as with an unknown order in the database."""
    return {str(Order.WEBHOOK): "", str(Order.KEY): ordering_key}.get(order)


class OrderNumberQuerySet(BaseQuerySet["OrderNumber"]):
    def take(self, count: int = 1) -> list[int]:
        """Return ascending numbers, greater than those of all earlier transactions."""
        if sql := number_sql(self.db):
            with connections[self.db].cursor() as cursor:
                cursor.execute(f"SELECT {sql} FROM generate_series(1, %s)", [count])
                return [number for (number,) in cursor.fetchall()]
        numbers = [self.create().pk for _ in range(count)]
        self.filter(pk__in=numbers)._raw_delete(self.db)  # noqa: SLF001 - nothing refers to the rows
        return numbers


class OrderNumber(BaseModel):
    """The source of numbers. Its keys are never reused. A row is deleted as soon as its number is known."""

    id = models.BigAutoField(primary_key=True)

    objects = OrderNumberQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("order number")
        verbose_name_plural = _("order numbers")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)


def number_sql(using: str) -> str | None:
    """Return the SQL expression for the next number, or None if it requires the insertion of a row."""
    table = connections[using].ops.quote_name(OrderNumber._meta.db_table)
    return dialect_of(using).next_number_sql(table)


class OrderedEntries(BaseQuerySet[Any]):
    def in_groups(self) -> Self:
        return self.filter(place__isnull=False)

    def parked(self) -> Self:
        return self.filter(due_at=None, filter_at=None)

    def earlier(self) -> Self:
        """Return the entries before the outer query's one in its group, as a subquery."""
        return self._of_same_group(place__lt=models.OuterRef("place"))

    def later(self) -> Self:
        """Return the entries after the outer query's one in its group, as a subquery."""
        return self._of_same_group(place__gt=models.OuterRef("place"))

    def first_before(self) -> models.Subquery:
        """Return the first entry of the group of the outer query's one, unless that is the first, as a subquery."""
        return models.Subquery(self.earlier().order_by("place").values("pk")[:1], output_field=IdField(prefix="dlv"))

    def first_of_groups(self) -> Self:
        return self.in_groups().filter(~models.Exists(self.model.objects.using(self.db).earlier()))

    def lock(self, ids: Iterable[str]) -> None:
        """Lock the entries with these keys, in their order, until the end of the transaction.

        Other conditions must not use an index, because MariaDB locks rows in the order of the index that it reads.
        """
        if connections[self.db].features.has_select_for_update:
            entries = self.filter(pk__in=list(ids)).order_by("pk")
            list(entries.select_for_update().values_list("pk", flat=True))

    def following(self) -> set[str]:
        """Return the next entries in the groups of these, except these themselves."""
        later = self.model.objects.using(self.db).later()
        following = models.Subquery(later.order_by("place").values("pk")[:1], output_field=IdField(prefix="dlv"))
        rows = list(self.in_groups().order_by().annotate(following=following).values_list("pk", "following"))
        return {found for _, found in rows if found} - {pk for pk, _ in rows}

    def promote(self, ids: Iterable[str], due_at: datetime | None = None) -> int:
        """Make parked entries among these due, at once unless ``due_at`` is given. Return their number.

        Their lanes must be locked.
        """
        parked, found = self.model.objects.using(self.db).parked(), sorted(ids)
        pages = [found[start : start + IDS_AT_A_TIME] for start in range(0, len(found), IDS_AT_A_TIME)]
        number: int = sum(parked.filter(pk__in=page).update(due_at=due_at or UtcNow()) for page in pages)
        return number

    def repair(self) -> int:
        """Make the parked first entries of groups due. Return their number.

        There are none unless other programs changed rows, or transactions ran with another isolation level.
        """
        stranded = self.parked().first_of_groups().values_list("pk", "webhook")
        found = list(stranded)
        if not found:
            return 0
        with writing(self.db, self.model):
            QueueLane.objects.using(self.db).lock({webhook_id for _, webhook_id in found})
            announce_deliveries(self.db)
            return self.promote(stranded.filter(pk__in=[pk for pk, _ in found]).values_list("pk", flat=True))

    def sort_again(self, webhook: Webhook) -> None:
        """Make a webhook's parked entries due, and move them to the groups of its order, in the caller's transaction.

        Later claims find the first of each group. Entries without a place remain unordered.
        """
        QueueLane.objects.using(self.db).lock([webhook.pk])
        entries = self.filter(webhook=webhook)
        self.lock(entries.filter(claimed_at__isnull=False).values_list("pk", flat=True))
        entries.parked().update(due_at=UtcNow())
        if webhook.order == Order.KEY:
            event = Event.objects.using(self.db).filter(pk=models.OuterRef("event"))
            entries.in_groups().update(order_key=models.Subquery(event.values("ordering_key")[:1]))
            entries.in_groups().filter(order_key=None).update(place=None)
        elif webhook.order == Order.WEBHOOK:
            entries.in_groups().update(order_key="")
        else:
            entries.in_groups().update(order_key=None, place=None)
        announce_deliveries(self.db)

    def _of_same_group(self, **conditions: object) -> Self:
        return self.filter(webhook=models.OuterRef("webhook"), order_key=models.OuterRef("order_key"), **conditions)


def places(using: str, deliveries: Sequence[Delivery]) -> dict[str, tuple[str, int]]:
    """Return the group and the place of each new delivery with an order, by id. The place is the last of the group."""
    may_be_ordered = [each for each in deliveries if each.kind == "event" and each.webhook.order != Order.NONE]
    if not may_be_ordered:
        return {}
    events = Event.objects.using(using).filter(pk__in={each.event_id for each in may_be_ordered}).order_by()
    keys = dict(events.values_list("pk", "ordering_key"))
    groups = {each.pk: group_of(each.webhook.order, keys.get(str(each.event_id))) for each in may_be_ordered}
    ordered = {pk: key for pk, key in groups.items() if key is not None}
    numbers = OrderNumber.objects.using(using).take(len(ordered)) if ordered else []
    return {pk: (key, number) for (pk, key), number in zip(ordered.items(), numbers, strict=True)}
