"""Pages of lists that may be millions of rows long: by where they begin rather than by number, and never counted.

Identifiers are ordered by time, so that the newest rows are read from an index, however many there are. Where a filter
has no index of its own, a page looks for it among a limited number of rows, and says where it stopped looking: a filter
that nothing matches costs no more than one that everything matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import QuerySet

from .sql import Slot, fill

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


@dataclass(frozen=True, slots=True)
class Parts:
    """Some rows to each of which those of a list refer by ``field``: a stretch of an index for each of them."""

    field: str = ""
    ids: Sequence[str] = ()
    are_too_many: bool = False
    """Whether they are more than can be read one by one."""

    @classmethod
    def of(cls, field: str, others: QuerySet[Any]) -> Parts:
        ids = list(others.order_by("-pk").values_list("pk", flat=True)[: MAX_PARTS + 1])
        return cls(field, ids[:MAX_PARTS], are_too_many=len(ids) > MAX_PARTS)


WHOLE = Parts()
"""A list that is one stretch of an index as it is."""


class Bounds(NamedTuple):
    """How the rows of a list are found, where it is not by their identifiers alone."""

    scope: QuerySet[Any] | None = None
    parts: Parts = WHOLE


def read_page(
    rows: QuerySet[Any],
    *,
    scope: QuerySet[Any] | None = None,
    parts: Parts = WHOLE,
    cursor: Cursor | None = None,
    size: int,
    horizon: int = HORIZON,
) -> Page:
    """Return a page of ``rows``, whatever their order.

    ``scope`` is for rows that a filter without an index narrows down: the same rows without it. The filter is looked
    for among ``horizon`` of them. ``parts``, which together have all rows, are each read from an index; the scope may
    be of more than them.
    """
    if len(parts.ids) == 1:
        of_it = {parts.field: parts.ids[0]}
        rows, scope, parts = rows.filter(**of_it), scope if scope is None else scope.filter(**of_it), WHOLE
    listing = _Listing(rows, rows if scope is None else scope, parts, size, horizon if scope is not None else None)
    page = listing.page(cursor)
    if cursor and cursor.is_upwards and page.newer is None and len(page.rows) < size:
        return listing.page(None)  # The top: full, with what has been added since.
    return page


class _Listing(NamedTuple):
    rows: QuerySet[Any]
    scope: QuerySet[Any]
    parts: Parts
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
        reach = max(1, (self.horizon or 0) // (len(self.parts.ids) or 1))
        edges = self._ids(_beyond(self.scope, cursor), is_upwards, slice(reach - 1, reach))
        if not edges:
            return None
        edge = edges[0]
        return edge[:-_BLURRED_DIGITS] + ("f" if is_upwards else "0") * _BLURRED_DIGITS

    def _first(self, rows: QuerySet[Any], is_upwards: bool) -> list[Any]:
        order = "pk" if is_upwards else "-pk"
        if not self.parts.field:
            return list(rows.order_by(order)[: self.size + 1])
        ids = self._ids(rows, is_upwards, slice(self.size + 1))
        return list(rows.filter(pk__in=ids).order_by(order)) if ids else []

    def _ids(self, rows: QuerySet[Any], is_upwards: bool, some: slice) -> list[str]:
        """Return these identifiers of each part, and of them the first, in one statement."""
        order = "pk" if is_upwards else "-pk"
        if not self.parts.field:
            return list(rows.order_by(order).values_list("pk", flat=True)[some])
        if not self.parts.ids:
            return []
        of_one = rows.filter(**{self.parts.field: _Part("part")}).order_by(order).values_list("pk")[some]
        try:
            sql, params = _of_each(of_one, self.parts)
        except EmptyResultSet:
            return []
        connection = connections[rows.db]
        field: Any = rows.model._meta.pk
        with connection.cursor() as db_cursor:
            direction = "ASC" if is_upwards else "DESC"
            db_cursor.execute(f"{sql} ORDER BY 1 {direction} LIMIT {some.stop - (some.start or 0)}", params)
            return [field.from_db_value(pk, None, connection) for (pk,) in db_cursor.fetchall()]


class _Part(Slot):
    """The identifier of a part in the query of one of them, which is compiled once for all."""

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        return "part.id", []


def _of_each(of_one: QuerySet[Any], parts: Parts) -> tuple[str, list[Any]]:
    """Return the SQL that does a query for each part, and its parameters."""
    connection = connections[of_one.db]
    sql, params = of_one.query.get_compiler(of_one.db).as_sql()
    field: Any = of_one.model._meta.get_field(parts.field)
    ids = [field.get_db_prep_value(pk, connection) for pk in parts.ids]
    if connection.vendor == "postgresql":
        each = f"SELECT found.* FROM unnest(%s) AS part (id) CROSS JOIN LATERAL ({sql}) AS found"
        return each, [ids, *params]
    union = " UNION ALL ".join([f"SELECT * FROM ({sql}) AS found"] * len(ids))
    return f"SELECT * FROM ({union}) AS found", [value for pk in ids for value in fill(params, {"part": pk})]


def _beyond(rows: QuerySet[Any], cursor: Cursor | None) -> QuerySet[Any]:
    if cursor is None:
        return rows
    field: Any = rows.model._meta.pk
    return rows.filter(**{"pk__gt" if cursor.is_upwards else "pk__lt": f"{field.prefix}_{cursor.digits}"})


def _digits(pk: str) -> str:
    return pk.partition("_")[2]
