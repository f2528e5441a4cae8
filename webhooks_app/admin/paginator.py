"""Pages of lists that may be millions of rows long."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

MAX_COUNT = 10_000


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than ``MAX_COUNT``; what lies behind is found by searching, not by turning pages."""

    object_list: QuerySet[Any]

    @cached_property
    def count(self) -> int:
        return self.object_list[:MAX_COUNT].count()
