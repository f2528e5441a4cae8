"""What a list is: its filters, its search and the index ranges that make it up. ``lists`` describes each of them.

Each face shows a list in its own way and passes the rows that its reader may view. ``Asked`` answers: it selects the
rows, and it decides how a page of them is found without examining more than a bounded number of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from django.core.validators import EMPTY_VALUES
from django.db.models import Model, Q, QuerySet
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from ..models import EventReference
from ..models.keyset import HORIZON, MAX_PARTS, WHOLE, Bounds, Cursor, Page, Parts, count_newest, read_page
from ..owners import owners, owners_with_key
from ..protocol.ids import pattern_of
from .display import grouped

ALL = "all"
"""The value that shows what pages hide by default."""

MAX_PER_CHIP = 100
"""Maximum number of rows that are examined to count those of a choice, since a page has several."""

MAX_PARTS_COUNTED = 10
"""Maximum number of parts of a list whose choices are counted, since as many rows are read of each."""

MAX_ACCOUNTS_FOUND = 20
"""Maximum number of owners with the same name that a search considers."""

MAX_TERMS = 20
"""Maximum number of words that a search considers. Each is a condition, and some are looked up before."""

Narrow: TypeAlias = "Callable[[Any, Any, Asked], Any]"
"""Return those of some rows that match a value."""


def found_owners(text: str) -> list[Any]:
    """Return the primary keys of the owners with this key or name, so that an index finds their rows.

    A key takes precedence, because links contain it. Another owner may have it as a name.
    """
    by_key = list(owners_with_key(text).values_list("pk", flat=True))
    return by_key or list(owners().found(text).values_list("pk", flat=True)[:MAX_ACCOUNTS_FOUND])


def never(value: Any, asked: Asked) -> bool:
    return False


def always(value: Any, asked: Asked) -> bool:
    return True


def without_parts(value: Any, asked: Asked) -> bool:
    return not asked.parts.field


@dataclass(frozen=True, kw_only=True, eq=False)
class Default:
    """What pages show until a value is chosen."""

    label: Any
    note: Any = ""
    """The sentence that says what is hidden."""
    narrow: Narrow
    lifted_by: Collection[str] = ()
    """The filters that lift it: whoever looks for certain rows wants to see them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ListFilter:
    """One filter of a list. Without ``values`` it takes a text or a time."""

    name: str
    """The query parameter, the same everywhere."""
    label: Any
    meaning: str = ""
    """The sentence of the API's documentation; empty for a filter that only pages have."""
    narrow: Narrow | None = None
    """By default, the field of this name has the value."""
    title: Any = ""
    """The heading of several filters that belong together; each of them has it."""
    hint: Any = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    suggested: Mapping[str, Any] = field(default_factory=dict)
    """Values to choose from besides the text."""
    samples: Sequence[str] = ()
    """Some values of a text, for the API's documentation and for tests."""
    is_moment: bool = False
    is_linked: bool = False
    """Whether people get it by a link, because they do not type identifiers. Forms keep it."""
    max_length: int = 100
    validators: Sequence[Any] = ()
    default: Default | None = None
    is_by_index: Callable[[Any, Asked], bool] = never
    """Whether an index has the matching rows, so that no others are examined."""
    parts: Collection[str] = ()
    """The fields of the parts that apply the filter already."""

    def choices(self, *, is_page: bool) -> list[tuple[str, Any]]:
        more = [(ALL, _("All"))] if is_page and self.default else []
        return [*more, *self.values.items()]


@dataclass(frozen=True, kw_only=True, eq=False)
class Chip:
    """A choice that a page offers above a list, with the number of its rows."""

    label: Any
    values: Mapping[str, str]
    counted_by: Sequence[Mapping[str, str]] = ({},)
    """More values, by which indexes find the rows. Their numbers are added up."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowList:
    """A list without a further structure: of the rows of some owners, newest first."""

    model: type[Model]
    filters: tuple[ListFilter, ...]
    ids: Mapping[str, str]
    """The prefixes of the identifiers that the search finds, with their fields."""
    owner_path: str = "owner"
    bar: Collection[str] = ("q",)
    """The filters that pages always show."""
    chips: Sequence[Chip] = ()

    def __getitem__(self, name: str) -> ListFilter:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[str, ListFilter]:
        return {each.name: each for each in self.filters}

    @cached_property
    def chip_names(self) -> frozenset[str]:
        return frozenset(name for chip in self.chips for name in chip.values)

    @property
    def search_help(self) -> Any:
        """What the search of a reader of several accounts finds."""
        return format_lazy("{terms} {more}", terms=self["q"].hint, more=_("or an account name"))

    @property
    def documented(self) -> list[ListFilter]:
        """The filters of the API."""
        return [each for each in self.filters if each.meaning]

    def field_of(self, term: str) -> str:
        """Return the field whose index finds the term if it is an identifier, or else an empty text."""
        prefix = term.partition("_")[0]
        return self.ids[prefix] if prefix in self.ids and pattern_of(prefix).fullmatch(term) else ""

    def is_id(self, term: str) -> bool:
        return bool(self.field_of(term))

    def matches(self, term: str, asked: Asked) -> Q:
        """Return the condition of the rows that a term of the search finds."""
        field = self.field_of(term)
        return Q(**{field: term}) if field else self.matches_text(term, asked)

    def matches_text(self, term: str, asked: Asked) -> Q:
        return Q(**{f"{self.owner_path}__in": asked.accounts(term)})

    def parts(self, asked: Asked) -> Parts:
        """Return the index ranges that make up the list before most filters apply."""
        if asked.owner_ids is None or self.owner_path != "owner":
            return WHOLE
        ids = list(asked.owner_ids)
        return Parts("owner", ids[:MAX_PARTS], are_too_many=len(ids) > MAX_PARTS)

    def is_covered_by(self, parts: Parts) -> bool:
        """Return True if parts have only rows that the reader may view and that match the search."""
        return True

    def horizon(self, asked: Asked) -> int:
        return HORIZON

    def source(self, asked: Asked, by_index: Sequence[ListFilter]) -> Any:
        """Return other rows to examine, which have the identifiers of the list with only these filters, or None."""
        return None


class Asked:
    """A question to a list: the values of its filters, for a reader who may view the rows of some owners.

    ``owner_ids`` is None for a reader of all rows. ``found`` names filters whose value is the identifier of a row that
    the reader may view, as the caller knows. ``hides_rows`` tells whether the reader may not view some of these owners'
    rows. Without ``is_page`` nothing is hidden by default.
    """

    def __init__(
        self,
        listed: RowList,
        values: Mapping[str, Any],
        *,
        owner_ids: Collection[Any] | None,
        found: Collection[str] = (),
        hides_rows: bool = False,
        is_page: bool = True,
    ) -> None:
        self.listed = listed
        self.values = {name: value for name, value in values.items() if value not in EMPTY_VALUES}
        self.owner_ids = owner_ids
        self.found = found
        self.hides_rows = hides_rows
        self.is_page = is_page
        self._events: dict[str, list[str]] = {}
        self._accounts: dict[str, list[Any]] = {}

    @cached_property
    def terms(self) -> list[str]:
        """The first different words of the search. Django's admin takes any number, which is too much for SQLite."""
        return list(dict.fromkeys(str(self.values.get("q", "")).split()))[:MAX_TERMS]

    @cached_property
    def parts(self) -> Parts:
        return self.listed.parts(self)

    def events(self, reference: str) -> list[str]:
        """Return the newest events of the reader's owners with a reference."""
        if reference not in self._events:
            self._events[reference] = EventReference.newest_events(reference, self.owner_ids)
        return self._events[reference]

    def accounts(self, text: str) -> list[Any]:
        """Return the keys of the accounts with this key or name; none for a reader who has only one."""
        if self.owner_ids is not None and len(self.owner_ids) == 1:
            return []
        if text not in self._accounts:
            self._accounts[text] = found_owners(text)
        return self._accounts[text]

    def hides(self, name: str) -> bool:
        """Return True if the default of a filter applies."""
        default = self.listed[name].default
        return bool(self.is_page and default and name not in self.values and not self.values.keys() & default.lifted_by)

    def rows(self, rows: Any) -> Any:
        """Return those of the rows that match every filter."""
        return self._narrowed(rows, self._active())

    def page(self, rows: QuerySet[Any], *, cursor: Cursor | None, size: int) -> Page:
        """Return a page of those of the reader's ``rows`` that match."""
        scope, parts, horizon = self._bounds()
        return read_page(self.rows(rows), scope=scope, parts=parts, cursor=cursor, size=size, horizon=horizon)

    def is_chosen(self, chip: Chip) -> bool:
        return all(str(self.values.get(name, "")) == chip.values.get(name, "") for name in self.listed.chip_names)

    def number_of(self, chip: Chip, rows: QuerySet[Any]) -> str:
        """Return how many of the reader's ``rows`` a choice finds with the other filters, such as ``7`` or ``100+``.

        The text is empty if too few rows were examined to know it.
        """
        if len(self.parts.ids) > MAX_PARTS_COUNTED:
            return ""
        others = {name: value for name, value in self.values.items() if name not in self.listed.chip_names}
        counts = [self._counted(rows, {**others, **chip.values, **more}) for more in chip.counted_by]
        number, has_more = sum(each for each, _more in counts), any(more for _each, more in counts)
        return f"{grouped(number)}{'+' * has_more}" if number or not has_more else ""

    def _counted(self, rows: QuerySet[Any], values: Mapping[str, Any]) -> tuple[int, bool]:
        asked = Asked(
            self.listed,
            values,
            owner_ids=self.owner_ids,
            found=self.found,
            hides_rows=self.hides_rows,
            is_page=self.is_page,
        )
        # Each is looked up once. No choice is about the parts.
        asked._events, asked._accounts, asked.parts = self._events, self._accounts, self.parts
        scope, parts, _horizon = asked._bounds()
        return count_newest(asked.rows(rows), scope=scope, parts=parts, limit=MAX_PER_CHIP)

    def _active(self) -> list[ListFilter]:
        return [each for each in self.listed.filters if each.name in self.values or self.hides(each.name)]

    def _bounds(self) -> Bounds:
        """Return how the rows of a page are found.

        If an index has just the matching rows of each part, they are read from it, and there is no scope. Otherwise a
        page examines rows of the scope up to the horizon: those that match the filters with an index. The planner gets
        no chance to look for matches further, since it does not know how rare they are.
        """
        listed, parts, active = self.listed, self.parts, self._active()
        # The range of an event or of a webhook has only its rows, so its filter needs no condition.
        if parts.field and not parts.are_too_many:
            active = [each for each in active if parts.field not in each.parts]
        by_index = [each for each in active if each.is_by_index(self.values.get(each.name), self)]
        # Only the whole list has another source: the queue is not divided as the deliveries are.
        scope = listed.source(self, by_index) if parts is WHOLE else None
        # Too many parts cannot be read one by one. The rows of all accounts are examined in their place.
        is_scanned = self.hides_rows or parts.are_too_many or not listed.is_covered_by(parts)
        if scope is None and len(by_index) == len(active) and not is_scanned:
            return Bounds(parts=parts)
        if scope is None:
            scope = self._narrowed(self._examined(), by_index)
        # A source has a shorter horizon if its rows cost more than those of the list.
        return Bounds(scope, WHOLE if parts.are_too_many else parts, min(HORIZON, listed.horizon(self)))

    def _examined(self) -> Any:
        """Return the rows of the reader's owners.

        Parts already limit the rows to these. With the owner's condition as well, PostgreSQL would join each row with
        its webhook before it counts it.
        """
        rows = self.listed.model._default_manager.all()
        if self.parts.field or self.owner_ids is None:
            return rows
        return rows.filter(**{f"{self.listed.owner_path}__in": self.owner_ids})

    def _narrowed(self, rows: Any, filters: Sequence[ListFilter]) -> Any:
        for each in filters:
            value = self.values.get(each.name)
            if value is None and each.default:
                rows = each.default.narrow(rows, value, self)
            elif value != ALL or not each.default:
                rows = each.narrow(rows, value, self) if each.narrow else rows.filter(**{each.name: value})
        return rows
