"""Base classes of all models. They read from the database for writes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from django.db import connections, models, router, transaction

from ..database.sql import concerns_rows, kind_of

logger = logging.getLogger("webhooks_app.models")

Row = TypeVar("Row", bound="BaseModel")
Row_co = TypeVar("Row_co", bound=models.Model, covariant=True)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class BaseQuerySet(models.QuerySet[Row_co]):
    """Read from the router's database for writes, unless ``using`` names another.

    A replica lags behind. Nearly every row is read just after another process wrote it: a webhook by the worker that
    sends its handshake, an API key by the next request.
    """

    owner_path = "owner"
    """The path of lookups from a row to its owner, for the models whose rows have one."""

    if not TYPE_CHECKING:

        @property
        def db(self) -> str:
            hints: dict[str, Any] = self._hints
            return self._db or router.db_for_write(self.model, **hints)

    def owned_by(self, owner: Any) -> Self:
        """Return the rows that belong to this owner, without the platform's."""
        return self.filter(**{self.owner_path: owner})

    def for_owner(self) -> Self:
        """Return the rows as their owner may see them. Only some models hide values, see ``disclosure``."""
        return self.all()

    def free(self) -> Self:
        """Lock the rows, except those locked by other transactions. Databases that cannot skip these wait instead."""
        return self.select_for_update(skip_locked=connections[self.db].features.has_select_for_update_skip_locked)

    def readable(self) -> list[Row_co]:
        """Return the rows. Those with a value that cannot be read, such as a damaged time, are logged and left out."""
        try:
            return list(self)
        except Exception as error:
            if not concerns_rows(error):
                raise
        unlimited = self.all()
        unlimited.query.clear_limits()
        return [row for pk in self.values_list("pk", flat=True) for row in _alone(unlimited, pk)]


def _alone(rows: models.QuerySet[Row_co], pk: Any) -> list[Row_co]:
    try:
        return list(rows.filter(pk=pk))
    except Exception as error:
        if not concerns_rows(error):
            raise
        name = rows.model._meta.object_name
        logger.error("%s %s cannot be read: %s.", name, pk, kind_of(error))  # noqa: TRY400 - quotes the row
        return []


class BaseModel(models.Model):
    if not TYPE_CHECKING:  # Overridden by models with their own QuerySet.
        objects = BaseQuerySet.as_manager()

    class Meta:
        abstract = True
        base_manager_name = "objects"  # for related objects and refresh_from_db()

    @property
    def alias(self) -> str:
        """The database of this row, even if it is not saved yet."""
        return self._state.db or router.db_for_write(type(self), instance=self)

    def lock_saved(self) -> Self | None:
        """Lock the saved row until the end of the transaction, and return it, or None if it was deleted.

        On a database without row locks, the transaction must have its write lock.
        """
        rows = type(self)._default_manager.using(self.alias).select_for_update()
        return cast("Self | None", rows.filter(pk=self.pk).first())

    def adopt(self, saved: Self) -> None:
        """Replace all values by those of the saved row."""
        for field in self._meta.concrete_fields:
            setattr(self, field.attname, getattr(saved, field.attname))
        self.__dict__.pop("_prefetched_objects_cache", None)


def atomic(method: Callable[Concatenate[Row, Arguments], Result]) -> Callable[Concatenate[Row, Arguments], Result]:
    """Run a model's method in the caller's transaction, or in a new one, on the row's own database."""

    @wraps(method)
    def run(row: Row, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with transaction.atomic(using=row.alias, savepoint=False):
            return method(row, *args, **kwargs)

    return run
