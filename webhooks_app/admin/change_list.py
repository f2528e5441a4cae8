"""Change lists with keyset pagination: newest rows first, links to older and newer ones, no count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest

from ..models.keyset import HORIZON, WHOLE, Bounds, Cursor, Page, Parts, read_page

if TYPE_CHECKING:
    from .owned import OwnedAdmin

CURSOR_VAR = "cursor"


class KeysetChangeList(ChangeList):
    """Change list that reads one page from a cursor. Filters without an index read a bounded number of rows."""

    page: Page
    filter_params: dict[str, list[str]]

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.cursor_text = request.GET.get(CURSOR_VAR, "")
        super().__init__(request, *args, **kwargs)
        self.params.pop(CURSOR_VAR, None)  # A search starts at the first page.

    def get_filters_params(self, params: dict[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = super().get_filters_params(params)
        found.pop(CURSOR_VAR, None)
        return found

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        # Forms also send their empty fields.
        self.filter_params = {name: values for name, values in self.filter_params.items() if any(values)}
        self.params = {name: value for name, value in self.params.items() if name in self.filter_params}
        return super().get_queryset(request, exclude_parameters)

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Return the query of a link, which starts at the first page of the list."""
        return super().get_query_string({CURSOR_VAR: None, **(new_params or {})}, remove)

    def get_results(self, request: HttpRequest) -> None:
        cursor = Cursor.parsed(self.cursor_text)
        if self.cursor_text and cursor is None:
            raise IncorrectLookupParameters
        self.page = Page(rows=[]) if _is_action(request) else self._read(request, cursor)
        self.result_list: Any = self.page.rows
        self.result_count = self.full_result_count = len(self.page.rows)
        self.show_full_result_count = False
        self.show_admin_actions = bool(self.page.rows)
        self.can_show_all = self.multi_page = False

    def pages(self, request: HttpRequest, size: int) -> Iterator[Sequence[Any]]:
        """Yield the rows of this page, and those of the older ones, each with at most ``size`` rows."""
        yield self.result_list
        self.list_per_page = size
        while (older := self.page.older) is not None:
            self.cursor_text = str(older)
            self.get_results(request)
            yield self.result_list

    def _read(self, request: HttpRequest, cursor: Cursor | None) -> Page:
        bounds = self._bounds(request)
        return read_page(
            self.queryset,
            scope=bounds.scope,
            parts=bounds.parts,
            cursor=cursor,
            size=self.list_per_page,
            horizon=bounds.horizon,
        )

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

    def _bounds(self, request: HttpRequest) -> Bounds:
        """Return the bounds of the query, limited if a filter has no index or there are too many parts."""
        admin: OwnedAdmin = self.model_admin  # type: ignore[assignment]
        active = [spec for spec in self.filter_specs if getattr(spec, "used_parameters", None)]
        parts = admin.parts(request, self.query, active)
        if parts.field and not parts.are_too_many:
            active = [spec for spec in active if getattr(spec, "part_field", "") != parts.field]
        by_index = [spec for spec in active if _is_by_index(spec, parts)]
        scope: Any = self._source(by_index) if parts is WHOLE and not self.query else None
        is_scanned = parts.are_too_many or admin.hides_rows(request) or not admin.are_covered_by(parts)
        if scope is None and len(by_index) == len(active) and not is_scanned:
            return Bounds(parts=parts)
        if scope is None:
            # Parts already find the rows of the search. Without parts, the scope needs the search too.
            scope = self.model._default_manager.all() if parts.field else self._searched(request)
            for spec in by_index:
                scope = spec.queryset(request, scope)
        horizon = min([HORIZON, *(getattr(spec, "horizon", HORIZON) for spec in by_index)])
        return Bounds(scope, WHOLE if parts.are_too_many else parts, horizon)

    def _source(self, by_index: Sequence[Any]) -> Any:
        """Return other rows to examine, which have the identifiers of the whole list with these filters, or None."""
        return None

    def _searched(self, request: HttpRequest) -> Any:
        admin: OwnedAdmin = self.model_admin  # type: ignore[assignment]
        return admin.get_search_results(request, admin.listed_rows(request), self.query)[0]

    def _url(self, cursor: Cursor | None) -> str:
        return self.get_query_string({CURSOR_VAR: str(cursor)}) if cursor else ""


def _is_by_index(spec: Any, parts: Parts) -> bool:
    is_it = getattr(spec, "is_by_index", False)
    return bool(is_it(parts) if callable(is_it) else is_it)


def _is_action(request: HttpRequest) -> bool:
    """Return True for the call of an action. It has a queryset of its own, and the answer does not contain the list."""
    return request.method == "POST" and ACTION_CHECKBOX_NAME in request.POST
