"""Pages of a list, by where the last one ended rather than by number."""

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
    """Pages of the newest first, each beginning where its neighbour ended: identifiers are ordered by time.

    A page costs the same however far down the list it is, and stays in place when rows are added above it. Where a
    filter has no index, it looks among a limited number of rows: then it is not full, and leads on to the next ones.
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
                    "description": "The older ones; null on the last page, and on that alone: a page need not "
                    "be full, or hold anything, where a filter had to look for what it lets through.",
                },
                "previous": {**link, "description": "The newer ones; null on the first page."},
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        limit = f"How many to a page: {self.page_size} unless told, at most {self.max_page_size}; more is cut to that."
        return [
            {
                "name": "cursor",
                "in": "query",
                "description": "Where the page begins: follow `next` and `previous` rather than making one.",
                "schema": {"type": "string", "pattern": f"^{CURSOR_PATTERN}$"},
            },
            {"name": "limit", "in": "query", "description": limit, "schema": {"type": "integer", "minimum": 1}},
        ]

    def _page_size(self, request: Request) -> int:
        text = request.query_params.get("limit", str(self.page_size))
        digits = text.lstrip("0")
        if not re.fullmatch(r"[0-9]+", digits, re.ASCII):
            raise ValidationError({"limit": ["Give a whole number of 1 or more."]})
        # Nine digits are beyond any size of page; more need not be read.
        return min(int(digits[:9]), self.max_page_size)

    def _cursor(self, request: Request) -> Cursor | None:
        text = request.query_params.get("cursor")
        if text is None:
            return None
        cursor = Cursor.parsed(text)
        if cursor is None:
            raise ValidationError({"cursor": ["This is not a cursor; follow next and previous."]})
        return cursor

    def _url(self, cursor: Cursor | None) -> str | None:
        return replace_query_param(self.url, "cursor", str(cursor)) if cursor else None


class WholeListPagination(NewestFirstPagination):
    """One page with everything, for a list that is short and not in the database."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        return list(queryset)

    def next_url(self) -> None:
        return None

    def previous_url(self) -> None:
        return None

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return []
