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

from ..database.dialects import dialect_of
from ..database.lateral import OuterId, Query, for_each, joined

HORIZON = 10_000
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
        ids = self._ids(cursor, edge)
        order = "pk" if is_upwards else "-pk"
        found = list(self.rows.filter(pk__in=ids).order_by(order)) if ids else []
        shown = found[: self.size]
        is_cut_short = len(ids) <= self.size and edge is not None
        last = ids[self.size - 1] if len(ids) > self.size else edge
        onwards = None if last is None else Cursor(is_upwards, _digits(last))
        back = Cursor(not is_upwards, _digits(shown[0].pk)) if shown else cursor and cursor.turned()
        if is_upwards:
            return Page(rows=shown[::-1], newer=onwards, older=back, is_cut_short=is_cut_short)
        return Page(rows=shown, newer=back if cursor else None, older=onwards, is_cut_short=is_cut_short)

    @property
    def _reach(self) -> int:
        """How many rows of each part are looked at."""
        return max(1, (self.horizon or 0) // (len(self.parts.ids) or 1))

    def _edge(self, cursor: Cursor | None) -> str | None:
        """Return the last identifier that is looked at; None where all of them are."""
        is_upwards = bool(cursor and cursor.is_upwards)
        ends = _Ids(_beyond(self.scope, cursor), is_upwards, self.parts)
        edges = ends.read(1, after=self._reach - 1)
        if not edges:
            return None
        return edges[0][:-_BLURRED_DIGITS] + ("f" if is_upwards else "0") * _BLURRED_DIGITS

    def _ids(self, cursor: Cursor | None, edge: str | None) -> list[str]:
        """Return the identifiers of a page, and of one row more.

        They are read before the rows, by statements to which indexes are enough, so that the database has no reason to
        go through other rows in the order of the list instead.
        """
        is_upwards = bool(cursor and cursor.is_upwards)
        within = {} if edge is None else {"pk__lte" if is_upwards else "pk__gte": edge}
        rows = _Ids(_beyond(self.rows, cursor).filter(**within), is_upwards, self.parts)
        if self.horizon is None or not dialect_of(self.rows.db).has_lateral_joins:
            return rows.read(self.size + 1)
        scope = _Ids(_beyond(self.scope, cursor).filter(**within), is_upwards, self.parts)
        return scope.read_matching(self.rows, self.size + 1, among=2 * self._reach)


class _Ids(NamedTuple):
    """Reads the first identifiers of some rows, each part of them from the index that it is a stretch of."""

    rows: QuerySet[Any]
    is_upwards: bool
    parts: Parts

    def read(self, count: int, *, after: int = 0) -> list[str]:
        """Return so many; those that come after the first few of each part."""
        try:
            sql, params = self._sql(slice(after, after + count))
        except EmptyResultSet:
            return []
        return self._executed(f"SELECT * FROM ({sql}) AS found", "1", count, params)

    def read_matching(self, rows: QuerySet[Any], count: int, *, among: int) -> list[str]:
        """Return so many of those that are in ``rows``, which are looked up one by one, and are few of each part."""
        try:
            window, params = self._sql(slice(among))
            one, more = _compiled(rows.order_by().filter(pk=OuterId("looked_at")).values_list("pk")[:1])
        except EmptyResultSet:
            return []
        # Lateral and with a limit, so that no other plan is possible, whatever the statistics say.
        sql = joined(f"({window}) AS looked_at (id)", one)
        return self._executed(sql, "looked_at.id", count, [*params, *more])

    def _sql(self, some: slice) -> Query:
        rows = self.rows.order_by("pk" if self.is_upwards else "-pk").values_list("pk")
        if not self.parts.field:
            return _compiled(rows[some])
        if not self.parts.ids:
            raise EmptyResultSet
        query = _compiled(rows.filter(**{self.parts.field: OuterId("part")})[some])
        connection = connections[rows.db]
        field: Any = rows.model._meta.get_field(self.parts.field)
        ids = [field.get_db_prep_value(pk, connection) for pk in self.parts.ids]
        return for_each(connection, "part", ids, query)

    def _executed(self, sql: str, by: str, count: int, params: Sequence[Any]) -> list[str]:
        connection = connections[self.rows.db]
        field: Any = self.rows.model._meta.pk
        direction = "ASC" if self.is_upwards else "DESC"
        with connection.cursor() as cursor:
            cursor.execute(f"{sql} ORDER BY {by} {direction} LIMIT {count}", params)
            return [field.from_db_value(pk, None, connection) for (pk,) in cursor.fetchall()]


def _compiled(query: QuerySet[Any]) -> Query:
    sql, params = query.query.get_compiler(query.db).as_sql()
    return sql, list(params)


def _beyond(rows: QuerySet[Any], cursor: Cursor | None) -> QuerySet[Any]:
    if cursor is None:
        return rows
    field: Any = rows.model._meta.pk
    return rows.filter(**{"pk__gt" if cursor.is_upwards else "pk__lt": f"{field.prefix}_{cursor.digits}"})


def _digits(pk: str) -> str:
    return pk.partition("_")[2]
