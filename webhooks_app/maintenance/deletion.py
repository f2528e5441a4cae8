"""Deletion of rows and everything that refers to them, with one statement per table.

Django's own deletion instantiates each row, and misses rows that are inserted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import models

from .batches import parts

Counts = dict[type[models.Model], int]


def delete_rows(using: str, model: type[models.Model], ids: Sequence[Any]) -> Counts:
    """Delete the rows with these keys, children first. Return the number of deleted rows by model.

    Follows ``on_delete`` for CASCADE and SET_NULL, without signals.
    """
    counts: Counts = {}
    for some in parts(ids):
        for field in _references_to(model):
            rows = field.model._base_manager.using(using).filter(**{f"{field.name}__in": some})  # noqa: SLF001
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
