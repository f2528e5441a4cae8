"""The orders of a webhook's deliveries, and the numbers that define them."""

from __future__ import annotations

from django.db import connections, models
from django.utils.translation import gettext_lazy as _

from ..database.dialects import dialect_of
from .base import BaseModel, BaseQuerySet

MAX_ORDERING_KEY_LENGTH = 100

BEGUN = 2**62
"""Subtracted from the place of a delivery at its first claim, so that it remains the first of its group.

A transaction with a late commit may insert a lower number while a later delivery is being sent."""


class Order(models.TextChoices):
    NONE = "none", _("none: deliveries are sent as soon as possible")
    WEBHOOK = "webhook", _("webhook: one delivery after the other")
    KEY = "key", _("key: one delivery after the other for each ordering key")


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
