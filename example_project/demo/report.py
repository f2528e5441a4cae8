"""Table of messages, requests and delays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from .timing import Series

HEADER = ("message", "to", "messages", "requests", "answered", "late, ms")


def table(found: Iterable[Series]) -> Iterator[str]:
    """Return the lines of the table: one row for each type of message to each receiver.

    ``late`` has the maximum over all messages of the row: the delay of the first request since the event, then of each
    retry since its scheduled time.
    """
    rows = [HEADER, *(_row(group) for group in _grouped(found))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for number, row in enumerate(rows):
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        if number == 0:
            yield "  ".join("─" * width for width in widths)


def _grouped(found: Iterable[Series]) -> list[list[Series]]:
    groups: dict[tuple[str, str], list[Series]] = {}
    for one in found:
        groups.setdefault((one.receiver, one.type), []).append(one)
    return list(groups.values())


def _row(group: Sequence[Series]) -> tuple[str, ...]:
    requests = sum(len(one.requests) for one in group)
    answers = sorted({one.statuses for one in group})
    late = [max(seconds) for seconds in zip_longest(*(one.late_seconds for one in group), fillvalue=0.0)]
    return (
        group[0].type,
        group[0].receiver,
        str(len(group)),
        str(requests),
        " or ".join(" ".join(map(str, statuses)) for statuses in answers),
        " ".join(f"{seconds * 1000:.0f}" for seconds in late),
    )
