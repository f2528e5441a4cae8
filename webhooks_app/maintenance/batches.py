"""Sizes of deletion batches. They adapt to the duration of the last batches, so that locks are short."""

from __future__ import annotations

from collections.abc import Collection, Iterator

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
