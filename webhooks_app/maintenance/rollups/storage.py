"""Storage of roll-ups with arbitrary counters."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db.models import BigIntegerField, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from ...database.sql import upsert, writing
from ...models import MaintenanceJob, Rollup, Tally
from .counting import Key, Sums, add

LOCK = "fold"
"""The job whose row serves as the lock."""

ROWS_AT_A_TIME = 500

KEY = ("webhook_id", "resolution", "start")
COUNTED = ("counts", "given_up")


@contextmanager
def changing(using: str) -> Generator[None]:
    """Open a transaction that may change roll-ups. Only one runs at a time, because counters are added up in Python."""
    MaintenanceJob.objects.using(using).ensure([LOCK])
    with writing(using, Tally):
        MaintenanceJob.objects.using(using).lock(LOCK)
        yield


def add_to_rollups(using: str, sums: Mapping[Key, Sums]) -> None:
    """Add to the counters of roll-ups, and insert missing roll-ups. Must be called within ``changing``.

    Stored counters that are not in ``sums`` are preserved, even those unknown to this version of the app.
    """
    keys = sorted(sums)
    for first in range(0, len(keys), ROWS_AT_A_TIME):
        some = keys[first : first + ROWS_AT_A_TIME]
        stored = _stored(using, some)
        rows = [_row(key, _total(stored.get(key, {}), sums[key])) for key in some]
        upsert(Rollup.objects.using(using), rows, unique=KEY, update=COUNTED)


def _stored(using: str, keys: Sequence[Key]) -> dict[Key, Sums]:
    webhook_ids, resolutions, starts = map(set, zip(*keys, strict=True))
    rows = Rollup.objects.using(using).filter(webhook_id__in=webhook_ids, resolution__in=resolutions, start__in=starts)
    return {(*key,): counts for *key, counts in rows.order_by().values_list(*KEY, "counts")}


def _total(stored: Sums, added: Sums) -> Sums:
    total = dict(stored)
    add(total, added)
    return {name: number for name, number in total.items() if number}


def _row(key: Key, counts: Sums) -> Rollup:
    return Rollup(**dict(zip(KEY, key, strict=True)), counts=counts, given_up=counts.get("given_up", 0))


def names_in(totals: QuerySet[Rollup]) -> list[str]:
    """Return the names of all counters in these roll-ups.

    For many webhooks, pass the totals over all webhooks: few rows that contain every counter.
    """
    return sorted({name for counts in totals.order_by().values_list("counts", flat=True) for name in counts})


def sums_by(field: str, rows: QuerySet[Rollup], names: Collection[str]) -> dict[Any, Sums]:
    """Return the sums of these counters by the value of a field, calculated by the database."""
    # The outer cast is required for PostgreSQL and MariaDB, where a sum of integers is a decimal.
    numbers = [Cast(KeyTextTransform(name, "counts"), BigIntegerField()) for name in names]
    sums = {f"sum_{place}": Cast(Sum(number), BigIntegerField()) for place, number in enumerate(numbers)}
    found = rows.order_by().values_list(field).annotate(**sums)
    return {value: {name: sum_ for name, sum_ in zip(names, values, strict=True) if sum_} for value, *values in found}
