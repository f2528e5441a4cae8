"""Filters and pages of the API's lists. Each page starts at the end of its neighbour.

A filter with an index finds its rows directly. For the others, a page scans a limited number of rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.filters import BaseFilterBackend
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from ..models.keyset import CURSOR_PATTERN, Cursor, Page
from ..pages.filters import FilterForm
from ..pages.listing import Asked, ListFilter, RowList
from ..protocol.json_data import EARLIEST, LATEST
from .fields import parse_moment


class ListFilters(BaseFilterBackend):
    """Read the filters of a view's ``listed``, and document them."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        return queryset

    def asked(self, request: Request, view: Any, given: Mapping[str, str]) -> Asked:
        """Return the question of a request. Raise ValidationError for bad values.

        ``given`` are the values of filters that the address itself contains.
        """
        filters = _documented(view)
        if blank := [each.name for each in filters if request.query_params.get(each.name) == ""]:
            raise ValidationError({name: ["Give a value, or leave the parameter out."] for name in blank})
        form = FilterForm(request.query_params, filters=filters, moment=_moment_field, is_page=False)
        if not form.is_valid():
            raise ValidationError({name: list(map(str, messages)) for name, messages in form.errors.items()})
        values = {**form.cleaned_data, **given}
        hides_rows = view.hides_rows()
        return Asked(view.listed, values, owner_ids=[view.owner.pk], found=given, hides_rows=hides_rows, is_page=False)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {"name": each.name, "in": "query", "description": each.meaning, "schema": parameter_schema(each)}
            for each in _documented(view)
        ]


def _documented(view: Any) -> list[ListFilter]:
    """Return the filters of a view, except those whose values are in its address."""
    listed: RowList | None = view.listed
    given = getattr(view, "lookup_filter", "")
    return [each for each in listed.documented if each.name != given] if listed else []


class MomentFilterField(forms.CharField):
    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            return min(max(parse_moment(text), EARLIEST), LATEST)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None


def _moment_field(label: Any) -> MomentFilterField:
    return MomentFilterField(required=False)


def parameter_schema(described: ListFilter) -> dict[str, Any]:
    """Return the JSON Schema of a filter's parameter."""
    if described.is_moment:
        return {"type": "string", "format": "date-time"}
    if described.values:
        return {"type": "string", "enum": list(described.values)}
    patterns = [each.regex.pattern for each in described.validators]
    samples = {"examples": list(described.samples)} if described.samples else {}
    return {"type": "string", "minLength": 1, "pattern": patterns[0] if patterns else r"^[^\u0000]*$", **samples}


class NewestFirstPagination(BasePagination):
    """Pages from the newest row to the oldest; identifiers are ordered by time.

    The cost of a page does not depend on its position, and new rows do not shift it. With a filter that has no index, a
    page scans a limited number of rows. It may then be incomplete, and its link continues the search.
    """

    page_size = 50
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.url = request.build_absolute_uri()
        asked: Asked = view.asked
        self.page = asked.page(queryset, cursor=self._cursor(request), size=self._page_size(request))
        return self.page.rows

    def get_paginated_response(self, data: Any) -> Response:
        links = {"next": self._url(self.page.older), "previous": self._url(self.page.newer)}
        return Response({**links, "results": data})

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": {
                    **link,
                    "description": "URL of the page with older records; null on the last page only. With some "
                    "filters, a page before it can be incomplete or empty.",
                },
                "previous": {**link, "description": "URL of the page with newer records; null on the first page."},
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        limit = f"Page size. Default: {self.page_size}. Maximum: {self.max_page_size}; larger values are reduced to it."
        return [
            {
                "name": "cursor",
                "in": "query",
                "description": "Position of the page. Follow `next` and `previous` instead of constructing it.",
                "schema": {"type": "string", "pattern": f"^{CURSOR_PATTERN}$"},
            },
            {"name": "limit", "in": "query", "description": limit, "schema": {"type": "integer", "minimum": 1}},
        ]

    def _page_size(self, request: Request) -> int:
        text = request.query_params.get("limit", str(self.page_size))
        digits = text.lstrip("0")
        if not re.fullmatch(r"[0-9]+", digits, re.ASCII):
            raise ValidationError({"limit": ["Give a whole number of 1 or more."]})
        # Nine digits exceed every page size, so further digits need not be parsed.
        return min(int(digits[:9]), self.max_page_size)

    def _cursor(self, request: Request) -> Cursor | None:
        text = request.query_params.get("cursor")
        if text is None:
            return None
        cursor = Cursor.parsed(text)
        if cursor is None:
            raise ValidationError({"cursor": ["This is not a cursor; follow `next` and `previous`."]})
        return cursor

    def _url(self, cursor: Cursor | None) -> str | None:
        return replace_query_param(self.url, "cursor", str(cursor)) if cursor else None


class WholeListPagination(NewestFirstPagination):
    """A single page, for a short list that is not in the database."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.page = Page(rows=list(queryset))
        return self.page.rows

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return []
