"""Pages of a list, by where the last one ended rather than by number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param

AFTER, BEFORE = "after", "before"
CURSOR_PATTERN = r"(after|before)\.[0-9a-f]{32}"


class NewestFirstPagination(BasePagination):
    """Pages of the newest first, each beginning where its neighbour ended: identifiers are ordered by time.

    A page costs the same however far down the list it is, and stays in place when rows are added above it.
    """

    page_size = 50
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.url = request.build_absolute_uri()
        self.size = self._page_size(request)
        self.direction, position = self._cursor(request, queryset)
        if self.direction == BEFORE:
            # Upwards from where the later page began, then turned round.
            found = list(queryset.filter(pk__gt=position).order_by("pk")[: self.size + 1])
            self.page = found[: self.size][::-1]
        else:
            older = queryset.filter(pk__lt=position) if position else queryset
            found = list(older.order_by("-pk")[: self.size + 1])
            self.page = found[: self.size]
        self.has_more = len(found) > self.size
        self.has_cursor = bool(position)
        return self.page

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self.next_url(), "previous": self.previous_url(), "results": data})

    def next_url(self) -> str | None:
        is_last = self.direction != BEFORE and not self.has_more
        return None if is_last else self._url(AFTER, self.page[-1:])

    def previous_url(self) -> str | None:
        if self.direction == BEFORE and not self.has_more:
            # The top: without a cursor, so that it shows what has been added since.
            return None
        return self._url(BEFORE, self.page[:1]) if self.has_cursor else None

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": {**link, "description": "The older ones; null on the last page."},
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

    def _cursor(self, request: Request, queryset: QuerySet[Any]) -> tuple[str, str]:
        text = request.query_params.get("cursor")
        if text is None:
            return AFTER, ""
        if not re.fullmatch(CURSOR_PATTERN, text):
            raise ValidationError({"cursor": ["This is not a cursor; follow next and previous."]})
        direction, _, digits = text.partition(".")
        return direction, f"{queryset.model._meta.pk.prefix}_{digits}"

    def _url(self, direction: str, edge: list[Any]) -> str | None:
        if not edge:
            return remove_query_param(self.url, "cursor")
        digits = edge[0].pk.partition("_")[2]
        return replace_query_param(self.url, "cursor", f"{direction}.{digits}")


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
