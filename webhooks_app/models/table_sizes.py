"""Estimated sizes of this app's tables, without counting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import connections, models

from ..database.dialects import TableEstimate, dialect_of
from ..protocol.ids import time_of
from .fields import IdField


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
