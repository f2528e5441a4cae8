"""Export of a list with its filters as CSV or as JSON lines, streamed page by page in constant memory."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from typing import Any, ClassVar, NamedTuple

from asgiref.sync import sync_to_async
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from django.utils import timezone

from ..models import AuditEntry
from ..operations.exports import count_exported, record_export
from ..owners import owners
from ..protocol.json_data import format_time
from .filters import FilteredAdmin
from .owned import EVERY_ACCOUNT, actor_of

ROWS_PER_PAGE = 250
"""The rows that an export holds in memory."""

MAX_QUERY = 2000
"""Characters of the filters in the audit log."""

FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""The beginning of a formula for spreadsheets, also in full width (OWASP, "CSV Injection")."""

SECRET_OF_KEY = re.compile(r"(whk_[0-9a-f]{1,12})_[^&]*")

Value = str | Callable[[Any], Any]
"""A path of attributes, or a function of the row."""

Exported = Mapping[str, Mapping[str, Value]]
"""The values of an export by name, under the column of the list that shows them."""


class ExportedRows(NamedTuple):
    """The rows of an export: page by page, the values of each, and the query of the list."""

    pages: Iterator[Sequence[Any]]
    values: Mapping[str, Value]
    query: str


class Format(NamedTuple):
    content_type: str
    head: Callable[[Sequence[str]], str]
    rows: Callable[[Sequence[str], Sequence[Sequence[Any]]], str]
    """Returns some rows, for the names of their values."""


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    text = StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value for a cell. A text that a spreadsheet would execute begins with an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def _json_lines(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return "".join(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)


FORMATS: Mapping[str, Format] = {
    "csv": Format("text/csv; charset=utf-8", lambda names: _csv([names]), lambda names, rows: _csv(rows)),
    "ndjson": Format("application/x-ndjson", lambda names: "", _json_lines),
}
"""The formats by the suffix of their files."""


def account_of(row: Any) -> str | None:
    """Return the name of a row's owner; None for the platform."""
    return owners().label(row.owner) if row.owner is not None else None


def shown_account_of(row: Any) -> str:
    name = account_of(row)
    return str(EVERY_ACCOUNT) if name is None else name


class ExportingAdmin(FilteredAdmin):
    """Admin whose list can be exported: the rows that the user sees in it, with the values of the columns shown."""

    exported: ClassVar[Exported]
    """The values of columns that do not export themselves, as those of fields and times do."""
    exported_at_a_time: ClassVar[int | None] = None

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("export/", self.export_view, "export"), *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Stream the list of this query. It is a POST, because it writes an audit entry."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        name = request.POST.get("format", "")
        if name not in FORMATS:
            return HttpResponseBadRequest(f"Unknown format; choose one of {', '.join(FORMATS)}.")
        self.check_query(request)
        try:
            rows = self.rows_to_export(request)
        except IncorrectLookupParameters:
            return HttpResponseBadRequest("The filters of the list are invalid.")
        # The audit entry exists before the first row, and has their number at the end.
        chunks = _encoded(rows, FORMATS[name], self._audited(request, rows.query, name))
        response = StreamingHttpResponse(
            _in_threads(chunks) if isinstance(request, ASGIRequest) else chunks,
            content_type=FORMATS[name].content_type,
        )
        listed = f"{self.opts.model_name}-{timezone.now():%Y%m%dT%H%M%S}.{name}"
        response["Content-Disposition"] = f'attachment; filename="{listed}"'
        return response

    def rows_to_export(self, request: HttpRequest) -> ExportedRows:
        """Return the rows of the list. Raise IncorrectLookupParameters for invalid filters."""
        changes: Any = self.get_changelist_instance(request)
        if changes.has_nonsense:
            raise IncorrectLookupParameters
        columns = [self._exported_under(str(column)) for column in self.get_list_display(request)]
        values = {"id": "pk"} | {name: of for under in columns for name, of in under.items()}
        pages = changes.pages(request, self.exported_at_a_time or ROWS_PER_PAGE)
        return ExportedRows(pages, values, changes.get_query_string().lstrip("?"))

    def _exported_under(self, column: str) -> Mapping[str, Value]:
        """Return the values of a column by name."""
        if column in self.exported:
            return self.exported[column]
        if column == "owner_name":
            return {"account": account_of}
        of: Mapping[str, Value] | None = getattr(getattr(self, column, None), "exported", None)
        return of or {column: self.opts.get_field(column).name}  # other columns are in ``exported``

    def _audited(self, request: HttpRequest, query: str, name: str) -> AuditEntry:
        query = SECRET_OF_KEY.sub(r"\1", query)[:MAX_QUERY]
        facts = {"format": name, **({"filters": query} if query else {})}
        return record_export(str(self.opts.model_name), facts, actor_of(request))


def _encoded(rows: ExportedRows, form: Format, entry: AuditEntry) -> Iterator[bytes]:
    names, count = list(rows.values), 0
    try:
        yield form.head(names).encode()
        for page in rows.pages:
            count += len(page)
            yield form.rows(names, [[_plain(_value(row, of)) for of in rows.values.values()] for row in page]).encode()
    finally:  # also if the client closes the connection
        count_exported(entry, count)


async def _in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Return the chunks for ASGI. Django would collect those of a synchronous iterator before it sends the first."""
    try:
        while (chunk := await sync_to_async(lambda: next(chunks, None))()) is not None:
            yield chunk
    finally:
        await sync_to_async(chunks.close)()  # type: ignore[attr-defined] # a generator


def _value(row: Any, of: Value) -> Any:
    if callable(of):
        return of(row)
    for name in of.split("."):
        row = getattr(row, name, None)
    return row


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: times in UTC."""
    if isinstance(value, datetime):
        return format_time(value if timezone.is_aware(value) else timezone.make_aware(value))
    return str(value) if isinstance(value, str) else value
