"""Change lists with keyset pagination: newest rows first, links to older and newer ones, no count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.text import capfirst

from ..models.keyset import Cursor, Page
from ..pages.listing import ALL, Asked

if TYPE_CHECKING:
    from .owned import OwnedAdmin

CURSOR_VAR = "cursor"


class KeysetChangeList(ChangeList):
    """Change list that reads one page from a cursor, with the filters of its admin's ``listed``."""

    page: Page
    has_nonsense = False
    """Whether the input of a filter is not valid. Nothing is listed then."""
    filter_params: dict[str, list[str]]
    filter_specs: Any = ()

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.request = request
        self.cursor_text = request.GET.get(CURSOR_VAR, "")
        super().__init__(request, *args, **kwargs)
        self.params.pop(CURSOR_VAR, None)  # A search starts at the first page.

    def get_filters_params(self, params: dict[str, Any] | None = None) -> dict[str, Any]:
        given: dict[str, Any] = super().get_filters_params(params)
        given.pop(CURSOR_VAR, None)
        return given

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        rows = self._rows()
        if not _is_action(request):  # Selected rows are named, whether the filters still find them or not.
            rows = self._filtered(request, rows)
        return rows.order_by(*self.get_ordering(request, rows))

    def _filtered(self, request: HttpRequest, rows: Any) -> Any:
        # Forms also send their empty fields.
        self.filter_params = {name: values for name, values in self.filter_params.items() if any(values)}
        self.params = {name: value for name, value in self.params.items() if name in self.filter_params}
        self.filter_specs, self.has_filters, _unknown, _duplicates, self.has_active_filters = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(remove=self.get_filters_params())
        return self.asked.rows(rows) if self._is_readable(request) else rows.none()

    @cached_property
    def asked(self) -> Asked:
        values = {"q": self.query}
        for spec in self.filter_specs:
            values |= spec.typed
        return self.owned_admin.asked(self.request, values)

    def _is_readable(self, request: HttpRequest) -> bool:
        """Return False, and show the errors that no form shows, if the input of a filter is not valid."""
        self.has_nonsense = any(spec.is_nonsense for spec in self.filter_specs)
        for spec in self.filter_specs:
            if spec.is_nonsense and not spec.fields:
                messages.error(request, f"{capfirst(spec.title)}: {' '.join(spec.errors)}", fail_silently=True)
        return not self.has_nonsense

    def _rows(self) -> Any:
        """Return all rows that the user may view, with the related ones that the list shows."""
        rows: Any = self.root_queryset
        return rows if rows.query.select_related else self.apply_select_related(rows)

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Return the query of a link, which starts at the first page of the list."""
        return super().get_query_string({CURSOR_VAR: None, **(new_params or {})}, remove)

    def get_results(self, request: HttpRequest) -> None:
        self.page = Page(rows=[]) if self.has_nonsense or _is_action(request) else self._read_page()
        self.result_list: Any = self.page.rows
        if self.page.rows:
            self.owned_admin.prepare(request, self.page.rows)
        self.result_count = self.full_result_count = len(self.page.rows)
        self.show_full_result_count = False
        self.show_admin_actions = bool(self.page.rows)
        self.can_show_all = self.multi_page = False

    def _read_page(self) -> Page:
        cursor = Cursor.parsed(self.cursor_text)
        if self.cursor_text and cursor is None:
            raise IncorrectLookupParameters
        return self.asked.page(self._rows(), cursor=cursor, size=self.list_per_page)

    def pages(self, request: HttpRequest, size: int) -> Iterator[Sequence[Any]]:
        """Yield the rows of this page, and those of the older ones, each with at most ``size`` rows."""
        yield self.result_list
        self.list_per_page = size
        while (older := self.page.older) is not None:
            self.cursor_text = str(older)
            self.get_results(request)
            yield self.result_list

    @property
    def owned_admin(self) -> OwnedAdmin:
        return self.model_admin  # type: ignore[return-value]

    @property
    def hidden(self) -> Iterator[tuple[Any, str]]:
        """What the list hides until it is chosen: a sentence about it, and the link that shows it."""
        for each in self.asked.listed.filters:
            if each.default and each.default.note and self.asked.hides(each.name):
                yield each.default.note, self.get_query_string({each.name: ALL})

    @property
    def export_url(self) -> str:
        return f"export/{self.get_query_string()}" if hasattr(self.model_admin, "exported") else ""

    @property
    def newer_url(self) -> str:
        return self._url(self.page.newer)

    @property
    def older_url(self) -> str:
        return self._url(self.page.older)

    @property
    def newest_url(self) -> str:
        return self.get_query_string() if self.cursor_text else ""

    def _url(self, cursor: Cursor | None) -> str:
        return self.get_query_string({CURSOR_VAR: str(cursor)}) if cursor else ""


def _is_action(request: HttpRequest) -> bool:
    """Return True for the call of an action. It has a queryset of its own, and the answer does not contain the list."""
    return request.method == "POST" and ACTION_CHECKBOX_NAME in request.POST
