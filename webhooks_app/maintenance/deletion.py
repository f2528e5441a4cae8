"""Deletion of rows and everything that refers to them, with one statement per table.

It happens in batches, whose sizes adapt to the duration of the last ones, so that locks are short. Django's own
deletion instantiates each row, and misses rows that are inserted meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django.db import models
from django.db.models import QuerySet

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
