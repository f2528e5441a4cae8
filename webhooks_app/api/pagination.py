"""Cursor pagination: each page starts at the end of its neighbour."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from ..models.keyset import CURSOR_PATTERN, HORIZON, Bounds, Cursor, read_page


class NewestFirstPagination(BasePagination):
    """Pages from the newest row to the oldest; identifiers are ordered by time.

    The cost of a page does not depend on its position, and new rows do not shift it. With a filter that has no index, a
    page scans a limited number of rows. It may then be incomplete, and its link continues the search.
    """

    page_size = 50
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.url = request.build_absolute_uri()
        bounds: Bounds = getattr(view, "bounds", Bounds())
        self.page = read_page(
            queryset,
            scope=bounds.scope,
            parts=bounds.parts,
            cursor=self._cursor(request),
            size=self._page_size(request),
            horizon=HORIZON,
        )
        return self.page.rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self.next_url(), "previous": self.previous_url(), "results": data})

    def next_url(self) -> str | None:
        return self._url(self.page.older)

    def previous_url(self) -> str | None:
        return self._url(self.page.newer)

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
        return list(queryset)

    def next_url(self) -> None:
        return None

    def previous_url(self) -> None:
        return None

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return []
