"""The filters of the change lists, from the descriptions in ``pages.lists``. None reads the table for its choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR
from django.core.validators import EMPTY_VALUES
from django.db.models import QuerySet
from django.forms import BoundField
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from ..models.disclosure import UNREACHABLE
from ..owners import owners
from ..pages.filters import DAYS, FilterForm, limits_of
from ..pages.listing import MAX_ACCOUNTS_FOUND, ListFilter, RowList
from ..pages.lists import type_choices
from .change_list import CURSOR_VAR
from .owned import OwnedAdmin, actor_of, knows_owners, manages_all, visible_event_types


class DescribedFilter(admin.ListFilter):
    """One filter of a list, or several that belong together, as links to choose from and a form for other input.

    Input that is not valid matches nothing, and the other filters stay active.
    """

    listed: ClassVar[RowList]
    filters: ClassVar[Sequence[ListFilter]]
    parameter_name: str
    """The first parameter. Admin themes such as Unfold expect this attribute, as in Django's filters."""

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.given = {each.name: params.pop(each.name)[-1] for each in self.filters if each.name in params}
        checked = self._form(self.given) if self.given else None
        self.errors = [error for errors in checked.errors.values() for error in errors] if checked else []
        self.is_nonsense = bool(self.errors)
        values = checked.cleaned_data if checked and not self.is_nonsense else {}
        self.typed = {name: value for name, value in values.items() if value not in EMPTY_VALUES}
        self.used_parameters |= self.given if self.is_nonsense else self.typed

    @cached_property
    def form(self) -> FilterForm:
        """The form for input that is not chosen from links, with the valid input or with the errors."""
        return self._form(self.given) if self.is_nonsense else self._form(None, initial=self.typed)

    def _form(self, data: Any, **more: Any) -> FilterForm:
        return FilterForm(data, filters=self.filters, suggestions=self.suggestions, auto_id="filter-%s", **more)

    @cached_property
    def suggestions(self) -> dict[str, list[tuple[str, Any]]]:
        """The choices that depend on the user."""
        if self.parameter_name in ("event_type", "type"):
            return type_choices(self.listed, visible_event_types(self.request))
        if self.parameter_name == "owner" and not manages_all(self.request):
            known = actor_of(self.request).owners[:MAX_ACCOUNTS_FOUND]
            return {"owner": [(str(owner.pk), owners().label(owner)) for owner in known]}
        return {}

    @property
    def fields(self) -> list[BoundField]:
        """The fields of the form for input that is not chosen from links."""
        return [self.form[each.name] for each in self.filters if self._is_typed(each)]

    def _is_typed(self, each: ListFilter) -> bool:
        return not each.values and not each.is_linked and each.name not in self.suggestions

    @property
    def template(self) -> str:  # type: ignore[override]
        return "admin/webhooks_app/typed_filter.html" if self.fields else "admin/filter.html"

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Hidden fields of the form: the search and the other filters."""
        dropped = {*self.expected_parameters(), CURSOR_VAR, PAGE_VAR, ERROR_FLAG}
        given = self.request.GET.lists()
        return [(name, value) for name, values in given if name not in dropped for value in values if value]

    def has_output(self) -> bool:
        if self.parameter_name == "owner":
            return knows_owners(self.request)
        return bool(self.given) or not all(each.is_linked for each in self.filters)

    def expected_parameters(self) -> list[str | None]:
        return [each.name for each in self.filters]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset  # The change list applies all filters at once.

    def choices(self, changelist: Any) -> Iterator[Any]:
        described, without = self.filters[0], dict.fromkeys(each.name for each in self.filters)
        default, every = described.default, changelist.get_query_string(without)
        is_plain = changelist.asked.hides(described.name) if default else not self.given
        yield {"selected": is_plain, "query_string": every, "display": default.label if default else _("All")}
        for meant, label in self._links(described):
            query = changelist.get_query_string({**without, **meant})
            yield {"selected": self.given == meant, "query_string": query, "display": label}

    def _links(self, described: ListFilter) -> Iterator[tuple[dict[str, str], Any]]:
        """Yield the parameters of the links, with their texts. The input of a text is one of them."""
        name, given = described.name, self.given.get(described.name, "")
        choices = dict(described.choices(is_page=True)) | dict(self.suggestions.get(name) or described.suggested)
        if manages_all(self.request):
            choices.pop(UNREACHABLE, None)  # which only owners see
        if given and not (described.values or described.is_moment or self.is_nonsense):
            choices.setdefault(given, given)
        for value, label in choices.items():
            yield self._day(value) if name == "period" and value in DAYS else {name: value}, label

    def _day(self, day: str) -> dict[str, str]:
        """Return the beginning and the end of a day for the form, where users edit them."""
        times = [each.name for each in self.filters if each.is_moment]
        return {name: f"{at:%Y-%m-%dT%H:%M:%S}" for name, at in zip(times, limits_of(day), strict=True)}


def filters_of(listed: RowList) -> tuple[type[DescribedFilter], ...]:
    """Return the classes of a list's filters for ``list_filter``, in its order."""
    groups: dict[object, list[ListFilter]] = {}
    for each in listed.filters:
        if each.name != "q":
            groups.setdefault(id(each.title) if each.title else each.name, []).append(each)
    return tuple(_class_of(listed, group) for group in groups.values())


class FilteredAdmin(OwnedAdmin):
    """Admin whose list has the filters and the search of its description."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "listed" in vars(cls):
            cls.list_filter, cls.search_help_text = filters_of(cls.listed), cls.listed.search_help


def _class_of(listed: RowList, group: Sequence[ListFilter]) -> type[DescribedFilter]:
    first = group[0]
    attributes = {
        "listed": listed,
        "filters": tuple(group),
        "title": first.title or first.label,
        "parameter_name": first.name,
    }
    return type(f"{first.name.title().replace('_', '')}Filter", (DescribedFilter,), attributes)
