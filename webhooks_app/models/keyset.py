"""Keyset pagination of lists with millions of rows, without counting.

Identifiers are ordered by time, so an index provides the newest rows at a constant cost. A filter without an index of
its own is applied to a limited number of rows. The page then contains the position for continuing. Therefore a filter
without matches costs no more than one that matches every row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import BooleanField, F, Func, OuterRef, QuerySet, Subquery, Value

from ..database.dialects import dialect_of
from ..database.sql import OuterId, Query, compiled, for_each, joined
from ..protocol.ids import first_id_at

HORIZON = 2500
"""Maximum number of rows that one page examines for a filter: a quarter of the 10,000 that it may read. It reads their
identifiers to find the last one, and then at most twice as many, because parts end at different rows."""

NEAR = 250
"""Number of rows that are examined first, because they usually fill a page."""

MAX_RANGES = 200
"""Number of index ranges that one page reads for a filter without an index. SQLite supports 500 in one statement."""

MAX_PARTS = 5000
"""Maximum number of parts of a list. With more parts than ranges, a page first reads one row of each: with the parts
themselves, these are the 10,000 rows that it may read."""

CURSOR_PATTERN = r"(after|before)\.[0-9a-f]{32}"
_ID_BITS = 128
_BLURRED_DIGITS = 12
"""Digits hidden in the identifier of the last examined row, which may belong to another owner."""


class Cursor(NamedTuple):
    """The start of a page: after (older than) or before (newer than) an identifier's digits."""

    is_upwards: bool
    digits: str

    @classmethod
    def parsed(cls, text: str) -> Cursor | None:
        """Return the cursor for the text of a link, or None if it is invalid."""
        if not re.fullmatch(CURSOR_PATTERN, text):
            return None
        direction, _, digits = text.partition(".")
        return cls(direction == "before", digits)

    def __str__(self) -> str:
        return f"{'before' if self.is_upwards else 'after'}.{self.digits}"

    def turned(self) -> Cursor:
        """Return the cursor in the opposite direction that includes this row."""
        step = 1 if self.is_upwards else -1
        number = min(max(int(self.digits, 16) + step, 0), (1 << _ID_BITS) - 1)
        return Cursor(not self.is_upwards, f"{number:032x}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Some rows, newest first, and the cursors of the adjacent pages."""

    rows: list[Any]
    newer: Cursor | None = None
    older: Cursor | None = None
    is_cut_short: bool = False
    """Whether the limit of examined rows was reached before the page was full. More matches may follow."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Referenced rows that divide a list by ``field``: each corresponds to one range of an index.

    A page needs only the parts whose next rows come first, so it reads few of thousands of webhooks.
    """

    field: str = ""
    ids: Sequence[str] = ()
    are_too_many: bool = False
    """Whether there are too many parts to read each of them."""

    @classmethod
    def of(cls, field: str, others: QuerySet[Any]) -> Parts:
        ids = list(others.order_by("-pk").values_list("pk", flat=True)[: MAX_PARTS + 1])
        return cls(field, ids[:MAX_PARTS], are_too_many=len(ids) > MAX_PARTS)


WHOLE = Parts()
"""A list that is a single range of an index."""


class Bounds(NamedTuple):
    """The way of finding a list's rows if their identifiers alone do not suffice."""

    scope: QuerySet[Any] | None = None
    parts: Parts = WHOLE
    horizon: int = HORIZON


def read_page(
    rows: QuerySet[Any],
    *,
    scope: QuerySet[Any] | None = None,
    parts: Parts = WHOLE,
    cursor: Cursor | None = None,
    size: int,
    horizon: int = HORIZON,
) -> Page:
    """Return a page of ``rows``. Their own order is ignored.

    ``scope`` is for rows narrowed down by a filter without an index: the same rows without that filter, or others with
    their identifiers, of which ``horizon`` are examined. ``parts`` together contain all rows, and each is read from an
    index. The scope may include further parts.
    """
    is_narrowed = scope is not None
    listing = _Listing(rows, rows if scope is None else scope, parts, size, horizon if is_narrowed else None)
    page = listing.page(cursor)
    if cursor and cursor.is_upwards and page.newer is None and len(page.rows) < size:
        return listing.page(None)  # The first page, filled up with new rows.
    return page


def count_newest(
    rows: QuerySet[Any], *, scope: QuerySet[Any] | None = None, parts: Parts = WHOLE, limit: int
) -> tuple[int, bool]:
    """Count those ``rows`` of a list that are among its newest ``limit``; also return whether it has others.

    The arguments are those of ``read_page``. Of each part, as many rows are read.
    """
    ids = _Ids(rows if scope is None else scope, is_upwards=False, parts=parts).read(limit + 1)
    newest, has_more = ids[:limit], len(ids) > limit
    return len(newest) if scope is None else rows.order_by().filter(pk__in=newest).count(), has_more


def newest_of_each(rows: QuerySet[Any], parts: Parts, count: int, *, after: int = 0) -> list[str]:
    """Return the identifiers of ``count`` rows of each part, after the newest ``after`` ones. Indexes find them.

    There are at most ``MAX_RANGES`` parts.
    """
    ids = _Ids(rows, is_upwards=False, parts=parts, are_full=True)
    return ids.read(count, after=after, total=count * len(parts.ids))


def oldest_of(rows: QuerySet[Any], parts: Parts, count: int) -> list[str]:
    """Return the identifiers of the first ``count`` rows of these parts, or of the whole list, the oldest first."""
    return _Ids(rows, is_upwards=True, parts=parts).read(count)


def created_within(rows: QuerySet[Any], since: datetime | None = None, until: datetime | None = None) -> QuerySet[Any]:
    """Return the rows created in a period, by their identifiers, which contain the time."""
    for lookup, moment in (("gte", since), ("lt", until)):
        if moment is not None:
            rows = limited(rows, lookup, first_id_at(id_field(rows).prefix, moment))
    return rows


class _Listing(NamedTuple):
    rows: QuerySet[Any]
    scope: QuerySet[Any]
    parts: Parts
    size: int
    horizon: int | None

    def page(self, cursor: Cursor | None) -> Page:
        listing, edge = self._nearest(cursor)
        return listing.read(cursor, edge)

    def read(self, cursor: Cursor | None, edge: str | None) -> Page:
        """Return the page, which examines no row beyond ``edge`` if that is given."""
        is_upwards = bool(cursor and cursor.is_upwards)
        if self.horizon and self.horizon > NEAR and len(self.parts.ids) * self.size < NEAR:
            near = self._replace(horizon=NEAR).read(cursor, edge)
            if not near.is_cut_short:
                return near
        if self.horizon:
            edge = _first([self._edge(cursor), edge], is_upwards)
        ids = self._ids(cursor, edge)
        order = "pk" if is_upwards else "-pk"
        found: list[Any] = []
        if ids:
            # The limits keep PostgreSQL from looking for them among all rows of an account in a long period.
            between = self.rows.filter(pk__gte=min(ids), pk__lte=max(ids))
            found = list(between.filter(pk__in=ids).order_by(order))
        shown = found[: self.size]
        is_cut_short = len(ids) <= self.size and edge is not None
        last = ids[self.size - 1] if len(ids) > self.size else edge
        onwards = None if last is None else Cursor(is_upwards, _digits(last))
        back = Cursor(not is_upwards, _digits(shown[0].pk)) if shown else cursor and cursor.turned()
        if is_upwards:
            return Page(rows=shown[::-1], newer=onwards, older=back, is_cut_short=is_cut_short)
        return Page(rows=shown, newer=back if cursor else None, older=onwards, is_cut_short=is_cut_short)

    def _nearest(self, cursor: Cursor | None) -> tuple[_Listing, str | None]:
        """Return the listing of only those parts whose first rows come first, and the last identifier to examine.

        No other part has a row before that identifier, and there are enough rows for a page before it.
        """
        number = max(MAX_RANGES if self.horizon else 0, self.size + 1)
        if len(self.parts.ids) <= number:
            return self, None
        is_upwards = bool(cursor and cursor.is_upwards)
        firsts = _firsts(_beyond(self.scope, cursor), is_upwards, self.parts)
        nearest = firsts[:number]
        listing = self._replace(parts=Parts(self.parts.field, [pk for _first_id, pk in nearest]))
        return listing, nearest[-1][0] if len(firsts) > number else None

    @property
    def _reach(self) -> int:
        """The number of examined rows per part."""
        return max(1, (self.horizon or 0) // (len(self.parts.ids) or 1))

    def _edge(self, cursor: Cursor | None) -> str | None:
        """Return the last identifier to examine, or None to examine all rows."""
        is_upwards = bool(cursor and cursor.is_upwards)
        ends = _Ids(_beyond(self.scope, cursor), is_upwards, self.parts)
        edges = ends.read(1, after=self._reach - 1)
        if not edges:
            return None
        return edges[0][:-_BLURRED_DIGITS] + ("f" if is_upwards else "0") * _BLURRED_DIGITS

    def _ids(self, cursor: Cursor | None, edge: str | None) -> list[str]:
        """Return the identifiers of a page, and one more.

        Separate statements read them from indexes alone, before the rows. This prevents the database from scanning
        other rows in the order of the list.
        """
        is_upwards = bool(cursor and cursor.is_upwards)

        def examined(rows: QuerySet[Any]) -> _Ids:
            found = _beyond(rows, cursor)
            if edge is not None:
                found = limited(found, "lte" if is_upwards else "gte", edge)
            return _Ids(found, is_upwards, self.parts)

        if self.horizon is None or not dialect_of(self.rows.db).has_lateral_joins:
            return examined(self.rows).read(self.size + 1)
        return examined(self.scope).read_matching(self.rows, self.size + 1, among=2 * self._reach)


class _Unknown(Func):
    """A value that PostgreSQL does not know when it plans the query."""

    template = "(SELECT %(expressions)s)"
    arity = 1


class _IsAnyOf(Func):
    """A comparison with an array of one value. Unlike an equality, it keeps both columns of an order."""

    template = "%(expressions)s])"
    arg_joiner = " = ANY(ARRAY["
    arity = 2
    output_field = BooleanField()


def _firsts(rows: QuerySet[Any], is_upwards: bool, parts: Parts) -> list[tuple[str, str]]:
    """Return the first identifier of each part and the part, in the order of the list. Parts without rows are missing.

    Each is one step in the index of the part. Without lateral joins, a subquery is shorter than a query for each part.
    """
    field: Any = rows.model._meta.get_field(parts.field)
    order = "pk" if is_upwards else "-pk"
    if dialect_of(rows.db).has_lateral_joins:
        found = _Ids(rows, is_upwards, parts).read_firsts()
    else:
        others = field.related_model._base_manager.using(rows.db).filter(pk__in=parts.ids).order_by()  # noqa: SLF001 - public API
        first = rows.filter(**{parts.field: OuterRef("pk")}).order_by(order).values("pk")[:1]
        found = [(first_id, pk) for first_id, pk in others.values_list(Subquery(first), "pk") if first_id is not None]
    return sorted(found, reverse=not is_upwards)


def _first(edges: Sequence[str | None], is_upwards: bool) -> str | None:
    """Return the edge that comes first in the order of the list, if there is one."""
    given = [edge for edge in edges if edge is not None]
    return (min if is_upwards else max)(given, default=None)


class _Ids(NamedTuple):
    """A reader of the first identifiers of some rows. Each part is a range of an index."""

    rows: QuerySet[Any]
    is_upwards: bool
    parts: Parts
    are_full: bool = False
    """Whether each part probably has as many rows as are read of it. PostgreSQL would sort all of a small table."""

    def read(self, count: int, *, after: int = 0, total: int = 0) -> list[str]:
        """Return ``count`` identifiers, or up to ``total`` with as many of each part. Skip ``after`` of each part."""
        try:
            sql, params = self._sql(slice(after, after + count))
        except EmptyResultSet:
            return []
        return self._first(f"SELECT * FROM ({sql}) AS found", "1", total or count, params)

    def read_matching(self, rows: QuerySet[Any], count: int, *, among: int) -> list[str]:
        """Return ``count`` identifiers that are in ``rows``, out of the first ``among`` of each part."""
        try:
            window, params = self._sql(slice(among))
            one, more = compiled(rows.order_by().filter(pk=OuterId("looked_at")).values_list("pk")[:1])
        except EmptyResultSet:
            return []
        # The lateral join with a limit enforces this plan regardless of statistics.
        sql = joined(f"({window}) AS looked_at (id)", one)
        return self._first(sql, "looked_at.id", count, [*params, *more])

    def read_firsts(self) -> list[tuple[str, str]]:
        """Return the first identifier of each part, with the part. Requires lateral joins."""
        field: Any = self.rows.model._meta.get_field(self.parts.field)
        try:
            sql, params = self._sql(slice(1), field.attname)
        except EmptyResultSet:
            return []
        return self._executed(sql, params, field)

    def _sql(self, some: slice, *names: str) -> Query:
        """Return the query for some rows of each part, with their identifiers and further fields."""
        if not self.parts.field:
            rows = self.rows.order_by("pk" if self.is_upwards else "-pk")
            return compiled(rows.values_list("pk", *names)[some])
        if not self.parts.ids:
            raise EmptyResultSet
        query = compiled(self._of_part().values_list("pk", *names)[some])
        connection = connections[self.rows.db]
        field: Any = self.rows.model._meta.get_field(self.parts.field)
        ids = [field.get_db_prep_value(pk, connection) for pk in self.parts.ids]
        return for_each(connection, "part", ids, query)

    def _of_part(self) -> QuerySet[Any]:
        """Return the rows of one part, in the order of the list.

        PostgreSQL expects as many rows of each part, and would look for the few rows of one among all rows. Only the
        index of the part has the order of both columns, if the planner does not know that the first one is constant.
        """
        field, order = self.parts.field, "pk" if self.is_upwards else "-pk"
        has_joins = sum(bool(count) for count in self.rows.query.alias_refcount.values()) > 1
        if has_joins or self.are_full or not dialect_of(self.rows.db).has_lateral_joins:
            return self.rows.filter(**{field: OuterId("part")}).order_by(order)
        column = f"{field}_id"
        rows = self.rows.filter(_IsAnyOf(F(column), OuterId("part")))
        return rows.order_by(f"-{column}" if self.is_upwards else column, order)

    def _first(self, sql: str, by: str, count: int, params: Sequence[Any]) -> list[str]:
        direction = "ASC" if self.is_upwards else "DESC"
        return [pk for (pk,) in self._executed(f"{sql} ORDER BY {by} {direction} LIMIT {count}", params)]

    def _executed(self, sql: str, params: Sequence[Any], *more: Any) -> list[Any]:
        """Return the rows of a query: identifiers, and the values of further fields."""
        connection = connections[self.rows.db]
        fields = [id_field(self.rows), *(each.target_field for each in more)]
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            return [
                tuple(field.from_db_value(value, None, connection) for field, value in zip(fields, row, strict=True))
                for row in cursor.fetchall()
            ]


def _beyond(rows: QuerySet[Any], cursor: Cursor | None) -> QuerySet[Any]:
    if cursor is None:
        return rows
    return limited(rows, "gt" if cursor.is_upwards else "lt", f"{id_field(rows).prefix}_{cursor.digits}")


def limited(rows: QuerySet[Any], lookup: str, pk: str) -> QuerySet[Any]:
    """Return the rows before or after an identifier.

    With a known value, PostgreSQL may prefer the few rows of a short time to those of a part, and read the rows of all
    other parts again for each part.
    """
    return rows.filter(**{f"pk__{lookup}": _Unknown(Value(pk, output_field=id_field(rows)))})


def id_field(rows: QuerySet[Any]) -> Any:
    """Return the field that defines the identifiers of the rows, also if these belong to other rows."""
    pk: Any = rows.model._meta.pk
    return getattr(pk, "target_field", pk)


def _digits(pk: str) -> str:
    return pk.partition("_")[2]
