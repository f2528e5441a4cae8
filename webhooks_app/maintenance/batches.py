"""Batches of a deletion. Their sizes adapt to the duration of the last batches, so that locks are short."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

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
        """Reset the size for another kind of rows, each of which may take far longer."""
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
