"""How many rows to delete at a time, so that nobody waits for the locks: learned from how long the last ones took."""

from __future__ import annotations

from collections.abc import Collection, Iterator

SLOW_SECONDS, QUICK_SECONDS = 0.03, 0.012
"""A batch holds its locks for about as long: after a slower one the next is halved, after a quicker one it grows. Far
below what anybody would notice, since a busy machine may take three times as long for the next."""

FIRST_ROWS, LEAST_ROWS, MOST_ROWS = 200, 20, 10_000

IDS_TO_A_STATEMENT = 1000


class BatchSize:
    """The ``rows`` of the next batch."""

    def __init__(self) -> None:
        self.rows = FIRST_ROWS

    def begin(self) -> None:
        """Begin with rows of another kind, each of which may take far longer than those before."""
        self.rows = min(self.rows, FIRST_ROWS)

    def adapt(self, seconds: float) -> None:
        """Learn from a batch that took so long."""
        if seconds > SLOW_SECONDS:
            self.rows = max(LEAST_ROWS, self.rows // 2)
        elif seconds < QUICK_SECONDS:
            self.rows = min(MOST_ROWS, self.rows * 3 // 2)


def parts(ids: Collection[str]) -> Iterator[list[str]]:
    """Return the ids in lists that are not too long for a statement."""
    listed = list(ids)
    for start in range(0, len(listed), IDS_TO_A_STATEMENT):
        yield listed[start : start + IDS_TO_A_STATEMENT]
