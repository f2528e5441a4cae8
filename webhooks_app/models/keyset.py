"""Pages of lists that may be millions of rows long: by where they begin rather than by number, and never counted.

Identifiers are ordered by time, so that the newest rows are read from an index, however many there are. Where a filter
has no index of its own, a page looks for it among a limited number of rows, and says where it stopped looking: a filter
that nothing matches costs no more than one that everything matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import Q, QuerySet

HORIZON = 20_000
"""Among how many rows a page looks for those that a filter lets through."""

MAX_PARTS = 200
"""How many stretches of an index are read for one page; SQLite reads 500 in one statement."""

CURSOR_PATTERN = r"(after|before)\.[0-9a-f]{32}"
_ID_BITS = 128
_BLURRED_DIGITS = 12
"""So many digits of the last row that was looked at are not told: it may be somebody else's."""


class Cursor(NamedTuple):
    """Where a page begins: after (older than) or before (newer than) an identifier's digits."""

    is_upwards: bool
    digits: str

    @classmethod
    def parsed(cls, text: str) -> Cursor | None:
        """Return the cursor that a link carries; None for a text that is none."""
        if not re.fullmatch(CURSOR_PATTERN, text):
            return None
        direction, _, digits = text.partition(".")
        return cls(direction == "before", digits)

    def __str__(self) -> str:
        return f"{'before' if self.is_upwards else 'after'}.{self.digits}"

    def turned(self) -> Cursor:
        """Return the cursor of the opposite direction that begins with this very row."""
        step = 1 if self.is_upwards else -1
        number = min(max(int(self.digits, 16) + step, 0), (1 << _ID_BITS) - 1)
        return Cursor(not self.is_upwards, f"{number:032x}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Some rows, the newest first, and where the pages beside them begin."""

    rows: list[Any]
    newer: Cursor | None = None
    older: Cursor | None = None
    is_cut_short: bool = False
    """Whether looking stopped before the page was full, so that more may lie behind."""


class Bounds(NamedTuple):
    """How the rows of a list are found, where it is not by their identifiers alone."""

    scope: QuerySet[Any] | None = None
    parts: Sequence[Q] = (Q(),)


def one_each(others: QuerySet[Any], field: str) -> Sequence[Q] | None:
    """Return a part for each of these rows, to which ``field`` refers; None where they are too many."""
    ids = list(others.order_by("-pk").values_list("pk", flat=True)[: MAX_PARTS + 1])
    if len(ids) > MAX_PARTS:
        return None
    return tuple(Q(**{field: pk}) for pk in ids) or (Q(pk__in=()),)


def read_page(
    rows: QuerySet[Any],
    *,
    scope: QuerySet[Any] | None = None,
    parts: Sequence[Q] = (Q(),),
    cursor: Cursor | None = None,
    size: int,
    horizon: int = HORIZON,
) -> Page:
    """Return a page of ``rows``, whatever their order.

    ``scope`` is for rows that a filter without an index narrows down: the same rows without it. The filter is looked
    for among ``horizon`` of them. Each of ``parts``, which together are all rows, is read from an index of its own.
    """
    listing = _Listing(rows, rows if scope is None else scope, parts, size, horizon if scope is not None else None)
    page = listing.page(cursor)
    if cursor and cursor.is_upwards and page.newer is None and len(page.rows) < size:
        return listing.page(None)  # The top: full, with what has been added since.
    return page


class _Listing(NamedTuple):
    rows: QuerySet[Any]
    scope: QuerySet[Any]
    parts: Sequence[Q]
    size: int
    horizon: int | None

    def page(self, cursor: Cursor | None) -> Page:
        is_upwards = bool(cursor and cursor.is_upwards)
        edge = self._edge(cursor) if self.horizon else None
        rows = _beyond(self.rows, cursor)
        if edge is not None:
            rows = rows.filter(**{"pk__lte" if is_upwards else "pk__gte": edge})
        found = self._first(rows, is_upwards)
        shown = found[: self.size]
        is_cut_short = len(found) <= self.size and edge is not None
        last = shown[-1].pk if len(found) > self.size else edge
        onwards = None if last is None else Cursor(is_upwards, _digits(last))
        back = Cursor(not is_upwards, _digits(shown[0].pk)) if shown else cursor and cursor.turned()
        if is_upwards:
            return Page(rows=shown[::-1], newer=onwards, older=back, is_cut_short=is_cut_short)
        return Page(rows=shown, newer=back if cursor else None, older=onwards, is_cut_short=is_cut_short)

    def _edge(self, cursor: Cursor | None) -> str | None:
        """Return the last identifier that is looked at; None where all of them are."""
        is_upwards = bool(cursor and cursor.is_upwards)
        reach = max(1, (self.horizon or 0) // len(self.parts))
        edges = self._ids(_beyond(self.scope, cursor), is_upwards, slice(reach - 1, reach))
        if not edges:
            return None
        edge = min(edges) if is_upwards else max(edges)
        return edge[:-_BLURRED_DIGITS] + ("f" if is_upwards else "0") * _BLURRED_DIGITS

    def _first(self, rows: QuerySet[Any], is_upwards: bool) -> list[Any]:
        order = "pk" if is_upwards else "-pk"
        if len(self.parts) == 1:
            return list(rows.filter(self.parts[0]).order_by(order)[: self.size + 1])
        ids = sorted(self._ids(rows, is_upwards, slice(self.size + 1)), reverse=not is_upwards)[: self.size + 1]
        return list(rows.filter(pk__in=ids).order_by(order)) if ids else []

    def _ids(self, rows: QuerySet[Any], is_upwards: bool, some: slice) -> list[str]:
        """Return these identifiers of each part, each read from the index, in one statement."""
        order = "pk" if is_upwards else "-pk"
        queries = [rows.filter(part).order_by(order).values_list("pk")[some] for part in self.parts]
        if len(queries) == 1:
            return [pk for (pk,) in queries[0]]
        connection = connections[rows.db]
        statements = list(_statements(queries, rows.db))
        if not statements:
            return []
        field: Any = rows.model._meta.pk
        with connection.cursor() as db_cursor:
            db_cursor.execute(
                " UNION ALL ".join(f"SELECT * FROM ({sql}) AS part" for sql, _ in statements),
                [param for _, params in statements for param in params],
            )
            return [field.from_db_value(pk, None, connection) for (pk,) in db_cursor.fetchall()]


def _statements(queries: Sequence[QuerySet[Any]], using: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for query in queries:
        try:
            yield query.query.get_compiler(using).as_sql()
        except EmptyResultSet:
            continue


def _beyond(rows: QuerySet[Any], cursor: Cursor | None) -> QuerySet[Any]:
    if cursor is None:
        return rows
    field: Any = rows.model._meta.pk
    return rows.filter(**{"pk__gt" if cursor.is_upwards else "pk__lt": f"{field.prefix}_{cursor.digits}"})


def _digits(pk: str) -> str:
    return pk.partition("_")[2]
